-- KEYS: index. ARGV: the score to begin at, or 0; how many at most.
-- Gives keys, their values (false where a key has gone) and the score of the last.
local from = math.max(tonumber(ARGV[1]), now_us())
local found = redis.pcall('ZRANGEBYSCORE', KEYS[1], whole(from), '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
if found.err or #found == 0 then
    return {{}, {}, '0'}
end
local keys = {}
for n = 1, #found, 2 do
    keys[#keys + 1] = found[n]
end
return {keys, redis.call('MGET', unpack(keys)), found[#found]}
