-- KEYS: key, index. ARGV: value, lifetime in ms. Gives 1 where there was none.
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 0
end
enlist(KEYS[2], KEYS[1], tonumber(ARGV[2]))
return 1
