-- KEYS: key. ARGV: value, lifetime in ms. Gives the value that is there, this one where there was none; and the name of
-- this life of Redis, a new one after each start and on each other server; empty where it may not be asked.
local life = ''
local info = redis.pcall('INFO', 'server')
if type(info) == 'string' then
    life = string.match(info, 'run_id:(%w+)') or ''
end
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    value = ARGV[1]
end
return { value, life }
