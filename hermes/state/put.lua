-- KEYS: key, index. ARGV: value, lifetime in ms.
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
enlist(KEYS[2], KEYS[1], tonumber(ARGV[2]))
return 1
