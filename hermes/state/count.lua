-- KEYS: index. ARGV: microseconds. Gives how many keys of a noun will live for so long yet.
local number = redis.pcall('ZCOUNT', KEYS[1], '(' .. whole(now_us() + tonumber(ARGV[1])), '+inf')
return type(number) == 'number' and number or 0
