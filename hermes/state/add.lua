-- KEYS: key, index. ARGV: amount, lifetime in ms, which begins with the first addition. Gives the sum.
return add(KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]))
