"""What pages show, as plain values made of what Hermes knows. No HTML, no SQL, no request."""
