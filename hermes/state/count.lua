-- KEYS: index. Gives how many keys of a noun are alive.
local number = redis.pcall('ZCOUNT', KEYS[1], '(' .. whole(now_us()), '+inf')
return type(number) == 'number' and number or 0
