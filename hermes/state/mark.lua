-- KEYS: key. ARGV: value, lifetime in ms. Gives the value that is there; this one, where there was none.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' then
    return value
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
