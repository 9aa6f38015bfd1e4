-- KEYS: key and index of each claim. ARGV: amount, limit, lifetime in ms and "may exceed" (1 or 0) of each claim.
-- Gives the position of the first claim that is refused, or -1 where all are granted.
local claims = #KEYS / 2
for n = 1, claims do
    local used = counted(KEYS[2 * n - 1]) or 0
    local amount, limit = tonumber(ARGV[4 * n - 3]), tonumber(ARGV[4 * n - 2])
    local is_refused = used + amount > limit
    if ARGV[4 * n] == '1' then
        is_refused = used >= limit
    end
    if is_refused then
        return n - 1
    end
end
for n = 1, claims do
    add(KEYS[2 * n - 1], KEYS[2 * n], ARGV[4 * n - 3], tonumber(ARGV[4 * n - 1]))
end
return -1
