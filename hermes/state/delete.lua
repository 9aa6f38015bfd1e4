-- KEYS: key, index. Gives how many were there.
strike_off(KEYS[2], KEYS[1])
return redis.call('DEL', KEYS[1])
