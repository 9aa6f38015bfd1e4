-- Stands before every other script: the time, counters, and the index of a noun.
--
-- An index is a sorted set of a noun's keys, scored with the microsecond of their death. So a noun is counted and listed
-- without looking at the keys of others, as SCAN would. Whatever somebody else has written under our names is taken for
-- nothing, and written over.

local function now_us()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end

-- Lua's own way of writing numbers rounds after 14 digits.
local function whole(number)
    return string.format('%.0f', number)
end

local function enlist(index, key, ttl_ms)
    local now = now_us()
    -- With each write a few of the dead are struck off: more than a write adds, and never so many that Redis stops.
    local dead = redis.pcall('ZRANGEBYSCORE', index, '-inf', whole(now), 'LIMIT', 0, 8)
    if dead.err then
        redis.call('DEL', index)
    elseif #dead > 0 then
        redis.call('ZREM', index, unpack(dead))
    end
    redis.call('ZADD', index, whole(now + ttl_ms * 1000), key)
    -- An index lives as long as the longest life in it.
    if redis.call('PTTL', index) < ttl_ms then
        redis.call('PEXPIRE', index, ttl_ms)
    end
end

local function strike_off(index, key)
    redis.pcall('ZREM', index, key)
end

-- The value of a counter, or nil where there is none.
local function counted(key)
    local value = redis.pcall('GET', key)
    if type(value) == 'string' and #value <= 16 and string.match(value, '^%-?%d+$') then
        return tonumber(value)
    end
    return nil
end

local function add(key, index, amount, ttl_ms)
    if counted(key) then
        return redis.call('INCRBY', key, amount)
    end
    redis.call('SET', key, amount, 'PX', ttl_ms)
    enlist(index, key, ttl_ms)
    return tonumber(amount)
end
