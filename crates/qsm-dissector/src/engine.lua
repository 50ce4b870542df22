-- The reader of packets: everything above it is data.

local PORTS = "4481,4483-4484"
local SERVICE_PORT = 4481
-- As in PROTOCOL.md: no message of a session is longer, nor any datagram.
local MESSAGE_BYTES_MAX = 8 * 1024 * 1024
local GROUP_NAME_BYTES_MAX = 255
-- Frames of sessions that are remembered to put messages together; when there are more, all are forgotten.
local FRAMES_MAX = 100000
-- Headers that are looked for in a datagram to find where its second packet begins.
local TRAIN_TRIES = 16

local qsm = Proto("qsm", "Quicksilver reliable multicast")

qsm.prefs.ports = Pref.range("UDP ports", PORTS, "Datagrams to and from these ports are Quicksilver's; " ..
  "others are if they look like it", 65535)

local fields = {}
local all_fields = {}

local function add_field(name, field)
  fields[name] = field
  all_fields[#all_fields + 1] = field
end

local NUMBERS = {
  [1] = ProtoField.uint8,
  [2] = ProtoField.uint16,
  [4] = ProtoField.uint32,
  [8] = ProtoField.uint64,
}

local function add_number(name, field)
  local base_shown, values = base.DEC, field.names
  if field.hex then
    base_shown = base.HEX
  elseif field.unit then
    base_shown, values = base.DEC + base.UNIT_STRING, { " " .. field.unit }
  end
  add_field(name, NUMBERS[field.bytes](name, field.label, base_shown, values, nil, field.says))
end

local function variant_names(field)
  local names = {}
  for number, variant in pairs(field.variants) do
    names[number] = variant.name
  end
  return names
end

-- Adds to the filters what a field of this kind is searched by.
local DECLARE = {
  number = add_number,
  flag = function(name, field)
    add_field(name, ProtoField.bool(name, field.label, base.NONE, nil, nil, field.says))
  end,
  origin = function(name, field)
    add_field(name, ProtoField.string(name, field.label, base.ASCII, field.says))
    add_field(name .. ".node", ProtoField.uint64(name .. ".node", "Node", base.HEX))
    add_field(name .. ".incarnation", ProtoField.uint32(name .. ".incarnation", "Incarnation", base.DEC))
  end,
  address = function(name, field)
    add_field(name, ProtoField.string(name, field.label, base.ASCII, field.says))
    add_field(name .. ".ip", ProtoField.ipv4(name .. ".ip", "IPv4 address"))
    add_field(name .. ".ip6", ProtoField.ipv6(name .. ".ip6", "IPv6 address"))
    add_field(name .. ".port", ProtoField.uint16(name .. ".port", "Port", base.DEC))
  end,
  text = function(name, field)
    add_field(name, ProtoField.string(name, field.label, base.UNICODE, field.says))
  end,
  range = function(name, field)
    add_field(name, ProtoField.string(name, field.label, base.ASCII, field.says))
    add_field(name .. ".first", ProtoField.uint64(name .. ".first", "First", base.DEC))
    add_field(name .. ".count", ProtoField.uint32(name .. ".count", "Count", base.DEC))
  end,
  bytes = function(name, field)
    add_field(name, ProtoField.bytes(name, field.label, base.NONE, field.says))
  end,
  optional = function(name, field)
    add_field(name, ProtoField.bool(name, field.label, base.NONE, nil, nil, field.says))
  end,
  choice = function(name, field)
    add_field(name, ProtoField.uint8(name, field.label, base.DEC, variant_names(field), nil, field.says))
  end,
}

local function declare(name, field)
  local group = function()
    add_field("qsm." .. name, ProtoField.none("qsm." .. name, field.label, base.NONE, field.says))
  end
  local content = field.kind == "message" or field.kind == "part_of_list" or field.kind == "group_answer" or
    field.kind == "zeros" or field.kind == "sum" or field.kind == "remainder"
  local known = content and DECLARE.bytes or DECLARE[field.kind]
  if known then
    known("qsm." .. name, field)
  else
    group()
  end
end

-- The version and the kind have names of their own.
do
  local kinds = {}
  for number, packet in pairs(PACKETS) do
    kinds[number] = packet.name
  end
  FIELDS["kind"].shown = kinds
end
for name, field in pairs(FIELDS) do
  field.name = name
  if name == "kind" then
    add_field("qsm.kind", ProtoField.uint8("qsm.kind", field.label, base.DEC, field.shown, nil, field.says))
  else
    declare(name, field)
  end
end
add_field("qsm.train", ProtoField.uint16("qsm.train", "Packets in this datagram", base.DEC))
add_field("qsm.frames", ProtoField.uint16("qsm.frames", "Frames of this message", base.DEC))
qsm.fields = all_fields

-- Why a packet is refused: as the decoder of a node says it.
local ERRORS = {
  bad_address = "unknown address family",
  bad_length = "length field out of bounds",
  bad_range = "empty or overflowing range",
  bad_text = "text is not UTF-8",
  sealed = "protected by a key",
  bad_value = "field value out of bounds",
  trailing_bytes = "bytes after the end of the message",
  truncated = "packet ends too early",
  unknown_kind = "unknown packet type",
  unknown_version = "unknown protocol version",
}
local experts = {}
local all_experts = {}

local function add_expert(name, text, group, severity)
  experts[name] = ProtoExpert.new("qsm." .. name, text, group, severity)
  all_experts[#all_experts + 1] = experts[name]
end

for name, text in pairs(ERRORS) do
  add_expert("error." .. name, text, expert.group.MALFORMED, expert.severity.ERROR)
end
add_expert("error.message", "no membership message", expert.group.MALFORMED, expert.severity.ERROR)
add_expert("error.answer", "no account of a group", expert.group.MALFORMED, expert.severity.ERROR)
add_expert("error.rows", "no rows of a list", expert.group.MALFORMED, expert.severity.ERROR)
add_expert("cut", "the capture keeps a part of the packet only", expert.group.UNDECODED, expert.severity.NOTE)
add_expert("incomplete", "other parts of the message are not in the capture", expert.group.REASSEMBLE,
  expert.severity.NOTE)
qsm.experts = all_experts

-- A refusal ends the reading of a packet; every other error is a fault of this file.
local Refusal = {}

local function refuse(code, field)
  error(setmetatable({ code = code, field = field }, Refusal), 0)
end

-- Calls a reader. Gives the refusal, or nothing.
local function try(read, ...)
  local fine, refusal = pcall(read, ...)
  if not fine then
    if getmetatable(refusal) ~= Refusal then
      error(refusal, 0)
    end
    return refusal
  end
end

-- Takes fields off the front of a part of a buffer.
local Reader = {}
Reader.__index = Reader

local function reader_of(tvb, from, to)
  return setmetatable({ tvb = tvb, at = from, to = to }, Reader)
end

function Reader:left()
  return self.to - self.at
end

-- The next bytes, at least one.
function Reader:take(count, field)
  local at = self.at
  if count > self.to - at then
    refuse("truncated", field)
  end
  if at + count > self.tvb:len() then
    refuse("cut", field)
  end
  self.at = at + count
  return self.tvb(at, count)
end

-- Text that is legal UTF-8, as RFC 3629 has it.
local function is_utf8(text)
  local at, length = 1, #text
  while at <= length do
    local first, second = text:byte(at, at + 1)
    local more, low, high = 0, 0x80, 0xbf
    if first >= 0xf1 and first <= 0xf3 then
      more = 3
    elseif first == 0xf0 then
      more, low = 3, 0x90
    elseif first == 0xf4 then
      more, high = 3, 0x8f
    elseif first == 0xe0 then
      more, low = 2, 0xa0
    elseif first == 0xed then
      more, high = 2, 0x9f
    elseif first >= 0xe1 and first <= 0xef then
      more = 2
    elseif first >= 0xc2 and first <= 0xdf then
      more = 1
    elseif first >= 0x80 then
      return false
    end
    if more > 0 and not (second and second >= low and second <= high) then
      return false
    end
    for offset = 2, more do
      local next = text:byte(at + offset)
      if not (next and next >= 0x80 and next <= 0xbf) then
        return false
      end
    end
    at = at + more + 1
  end
  return true
end

local function origin_text(node, incarnation)
  local digits = node:tohex():gsub("^0+(.)", "%1")
  return digits .. "." .. incarnation
end

local READ = {}
local read_fields

-- Reads a field by its name. `values` are those of the record that it is in. Without a tree nothing
-- is shown.
local function read_field(name, reader, tree, values)
  local field = FIELDS[name]
  READ[field.kind](field, reader, tree, values)
end

function read_fields(names, reader, tree, values)
  for _, name in ipairs(names) do
    read_field(name, reader, tree, values)
  end
end

local function entry_of(field)
  return fields["qsm." .. field.name]
end

local ALL_ONES = { 0xff, 0xffff, [4] = 0xffffffff }

function READ.number(field, reader, tree, values)
  local range = reader:take(field.bytes, field)
  local value
  if field.bytes == 8 then
    value = range:le_uint64()
  else
    value = range:le_uint()
  end
  values[field.name] = value
  if tree then
    local item = tree:add_le(entry_of(field), range)
    if field.all_ones and value == ALL_ONES[field.bytes] then
      item:append_text(" (" .. field.all_ones .. ")")
    end
  end
  local small = field.min and ((field.bytes == 8 and value < UInt64(field.min)) or
    (field.bytes < 8 and value < field.min))
  if small then
    refuse("bad_value", field)
  end
  if field.names and not field.names[value] then
    refuse("bad_value", field)
  end
end

-- A byte that is 0 or 1.
local function read_flag(field, reader, tree)
  local range = reader:take(1, field)
  local value = range:uint()
  local item = tree and tree:add(entry_of(field), range)
  if value > 1 then
    refuse("bad_value", field)
  end
  return value == 1, item
end

function READ.flag(field, reader, tree, values)
  values[field.name] = read_flag(field, reader, tree)
end

function READ.origin(field, reader, tree, values)
  local range = reader:take(12, field)
  local node, incarnation = range(0, 8):le_uint64(), range(8, 4):le_uint()
  local text = origin_text(node, incarnation)
  values[field.name] = text
  if tree then
    local item = tree:add(entry_of(field), range, text)
    item:add_le(fields["qsm." .. field.name .. ".node"], range(0, 8))
    item:add_le(fields["qsm." .. field.name .. ".incarnation"], range(8, 4))
  end
end

function READ.address(field, reader, tree, values)
  local start = reader.at
  local family = reader:take(1, field):uint()
  if family ~= 4 and family ~= 6 then
    refuse("bad_address", field)
  end
  local ip = reader:take(family == 4 and 4 or 16, field)
  local port = reader:take(2, field)
  local shown = family == 4 and tostring(ip:ipv4()) or "[" .. tostring(ip:ipv6()) .. "]"
  local text = shown .. ":" .. port:le_uint()
  values[field.name] = text
  if tree then
    local whole = reader.tvb(start, reader.at - start)
    local item = tree:add(entry_of(field), whole, text)
    item:add(fields["qsm." .. field.name .. (family == 4 and ".ip" or ".ip6")], ip)
    item:add_le(fields["qsm." .. field.name .. ".port"], port)
  end
end

function READ.text(field, reader, tree, values)
  local start = reader.at
  local length = reader:take(2, field):le_uint()
  local text = ""
  if length > 0 then
    text = reader:take(length, field):raw()
  end
  if not is_utf8(text) then
    refuse("bad_text", field)
  end
  values[field.name] = text
  if tree then
    tree:add(entry_of(field), reader.tvb(start, reader.at - start), text)
  end
end

function READ.range(field, reader, tree, values)
  local range = reader:take(12, field)
  local first, count = range(0, 8):le_uint64(), range(8, 4):le_uint()
  local beyond = first + UInt64(count)
  if tree then
    local last = count > 0 and tostring(beyond - UInt64(1)) or "nothing"
    local text = count == 1 and tostring(first) or tostring(first) .. " to " .. last
    local item = tree:add(entry_of(field), range, text)
    item:add_le(fields["qsm." .. field.name .. ".first"], range(0, 8))
    item:add_le(fields["qsm." .. field.name .. ".count"], range(8, 4))
  end
  if count == 0 or beyond < first then
    refuse("bad_range", field)
  end
  -- Ranges of a list ascend without overlap.
  if values.beyond and first < values.beyond then
    refuse("bad_range", field)
  end
  values.beyond = beyond
end

function READ.record(field, reader, tree, values)
  local start, inner = reader.at, {}
  local item = tree and tree:add(entry_of(field), reader.tvb(start))
  read_fields(field.fields, reader, item, inner)
  if item then
    item:set_len(reader.at - start)
    local name = inner[field.fields[1]]
    item:append_text(" " .. tostring(name ~= nil and name or ""))
  end
  values[field.name] = inner
end

function READ.optional(field, reader, tree, values)
  local given, item = read_flag(field, reader, tree)
  if given then
    read_field(field.value, reader, item, values)
  end
end

-- Every entry has at least one byte, so a count that is too large ends where the bytes do.
function READ.list(field, reader, tree, values)
  local count = field.count and values[field.count]
  if field.max and count > field.max then
    refuse("bad_length", field)
  end
  local start = reader.at
  if not count then
    count = reader:take(4, field):le_uint()
  end
  local item
  if tree then
    local empty = reader.at == start and reader:left() == 0
    item = empty and tree:add(entry_of(field)) or tree:add(entry_of(field), reader.tvb(start))
    item:append_text(": " .. count)
  end
  local entries, shared = {}, {}
  for index = 1, count do
    read_field(field.entry, reader, item, shared)
    entries[index] = shared[field.entry]
  end
  if item and reader.at > start then
    item:set_len(reader.at - start)
  end
  values[field.name] = entries
end

function READ.choice(field, reader, tree, values)
  local start = reader.at
  local range = reader:take(1, field)
  local number = range:uint()
  local item = tree and tree:add(entry_of(field), range)
  local variant = field.variants[number]
  if not variant then
    refuse("bad_value", field)
  end
  values[field.name] = variant.name
  read_fields(variant.fields, reader, item, {})
  if item then
    item:set_len(reader.at - start)
  end
end

-- What is left, which may be nothing.
local function take_rest(reader, field)
  if reader:left() == 0 then
    return nil
  end
  return reader:take(reader:left(), field)
end

function READ.zeros(field, reader, tree)
  local range = take_rest(reader, field)
  if not range then
    return
  end
  if tree then
    tree:add(entry_of(field), range)
  end
  if range:raw():find("[^\0]") then
    refuse("bad_value", field)
  end
end

function READ.remainder(field, reader, tree)
  local range = take_rest(reader, field)
  if range and tree then
    tree:add(entry_of(field), range)
  end
end

-- A length and a checksum at least.
function READ.sum(field, reader, tree)
  local range = take_rest(reader, field)
  if not range or range:len() < 6 then
    refuse("truncated", field)
  end
  if tree then
    tree:add(entry_of(field), range)
  end
end

-- Fewer bytes than a chunk has at least are zeros, up to the end.
local function is_filler(reader, field)
  local left = reader:left()
  if left >= 10 then
    return false
  end
  if left == 0 then
    return true
  end
  if reader.to > reader.tvb:len() then
    refuse("cut", field)
  end
  return not reader.tvb(reader.at, left):raw():find("[^\0]")
end

local PADDING = 0xffffffff

local function read_chunk(field, reader, tree)
  local start = reader.at
  local head = reader:take(10, field)
  local group, word = head(0, 4):le_uint(), head(8, 2):le_uint()
  local last, first, length = word >= 0x8000, word % 0x8000 >= 0x4000, word % 0x4000
  local total = first and not last and reader:take(4, field)
  local item = tree and tree:add(fields["qsm.chunks"], reader.tvb(start, reader.at - start + math.max(0,
    math.min(length, reader.tvb:len() - reader.at))))
  if item then
    item:set_text(group == PADDING and "Padding" or "Chunk of group " .. group)
    item:add_le(fields["qsm.chunk.group"], head(0, 4))
    item:add_le(fields["qsm.chunk.message"], head(4, 4))
    item:add(fields["qsm.chunk.last"], head(8, 2), last)
    item:add(fields["qsm.chunk.first"], head(8, 2), first)
    item:add(fields["qsm.chunk.length"], head(8, 2), length)
    if total then
      item:add_le(fields["qsm.chunk.total"], total)
    end
  end
  if length > 0 then
    local content = reader:take(length, field)
    if item then
      item:add(fields[group == PADDING and "qsm.chunk.padding" or "qsm.chunk.content"], content)
    end
  end
end

function READ.chunks(field, reader, tree, values)
  local count = 0
  while not is_filler(reader, field) do
    read_chunk(field, reader, tree)
    count = count + 1
  end
  values.chunks = count
  reader.at = reader.to
end

-- Gives the number of marks.
local function read_marks(field, reader, tree)
  local count = reader:take(1, field):uint()
  if count > MARKS_MAX then
    refuse("bad_length", field)
  end
  for _ = 1, count do
    local range = reader:take(8, field)
    if tree then
      tree:add_le(fields["qsm.mark"], range)
    end
  end
  return count
end

-- A list of marks, which is left out if it is empty.
function READ.marks(field, reader, tree)
  if reader:left() == 0 then
    return
  end
  local item = tree and tree:add(fields["qsm.marks"], reader.tvb(reader.at))
  if read_marks(field, reader, item) == 0 then
    refuse("bad_length", field)
  end
end

-- A list of marks for each slot, which are left out if all are empty.
function READ.slot_marks(field, reader, tree, values)
  if reader:left() == 0 then
    return
  end
  local marks = 0
  for _ = 1, values["slots_count"] do
    local start = reader.at
    local range = reader:take(1, field)
    reader.at = start
    local item = tree and tree:add(fields["qsm.slot_marks"], range)
    local count = read_marks(field, reader, item)
    if item then
      item:set_len(reader.at - start)
    end
    marks = marks + count
  end
  if marks == 0 then
    refuse("trailing_bytes", field)
  end
end

-- Sessions: their frames by maker and number, so that messages of several frames are put together.
local sessions

local function forget_sessions()
  sessions = { frames = {}, count = 0, messages = {} }
end

forget_sessions()
qsm.init = forget_sessions

local function remember_frame(key, number, content, more)
  if sessions.count >= FRAMES_MAX then
    sessions.frames, sessions.count = {}, 0
  end
  local frames = sessions.frames[key] or {}
  sessions.frames[key] = frames
  if not frames[number] then
    frames[number] = { content = content, more = more }
    sessions.count = sessions.count + 1
  end
  return frames
end

-- The message that ends with this frame: its bytes, how many frames it has, and false for what is
-- missing if nothing is. Numbers of frames are few, so that a number of Lua holds them.
local function put_together(frames, number)
  local content, count = frames[number].content, 1
  local before = number - 1
  while before > 0 do
    local frame = frames[before]
    if not frame then
      return content, count, true
    end
    if not frame.more then
      break
    end
    content, count, before = frame.content .. content, count + 1, before - 1
    if #content > MESSAGE_BYTES_MAX then
      return content, count, true
    end
  end
  return content, count, false
end

local function to_bytes(raw)
  local bytes = ByteArray.new()
  bytes:set_size(#raw)
  for at = 1, #raw do
    bytes:set_index(at - 1, raw:byte(at))
  end
  return bytes
end

-- Reads a message of one direction to its end.
local function read_message(name, tvb, tree, values)
  local reader = reader_of(tvb, 0, tvb:len())
  read_field(name, reader, tree, values)
  if reader:left() > 0 then
    refuse("trailing_bytes", FIELDS[name])
  end
end

-- The direction is not in the packet: the service's port tells it first, and what can be read.
local function show_message(tvb, tree, values, packet)
  local first, second = "to_service", "from_service"
  if packet.pinfo.src_port == SERVICE_PORT then
    first, second = second, first
  end
  local refusal
  for _, name in ipairs({ first, second }) do
    local found = try(read_message, name, tvb, nil, {})
    if not found then
      read_message(name, tvb, tree, values)
      packet.told[#packet.told + 1] = values[name]
      return
    end
    refusal = refusal or found
  end
  return refusal
end

function READ.message(field, reader, tree, values)
  local range = take_rest(reader, field)
  if not tree then
    return
  end
  local item = range and tree:add(entry_of(field), range) or tree
  local packet = values.packet
  local key = tostring(values["session"]) .. "." .. packet.maker
  local number = values["number"]:tonumber()
  local id = packet.pinfo.number .. "." .. packet.index
  local message = sessions.messages[id]
  if not message then
    local frames = remember_frame(key, number, range and range:raw() or "", values["more"])
    message = { more = values["more"] }
    if not message.more then
      message.raw, message.frames, message.torn = put_together(frames, number)
    end
    sessions.messages[id] = message
  end
  if message.more then
    item:append_text(" (goes on in the next frame)")
    return
  end
  local tvb = to_bytes(message.raw):tvb("Membership message")
  if message.frames > 1 then
    item:add(fields["qsm.frames"], message.frames):set_generated()
  end
  local refusal = #message.raw == 0 and { code = "truncated" } or
    show_message(tvb, item, values, packet)
  if refusal and message.torn then
    item:add_proto_expert_info(experts["incomplete"])
  elseif refusal then
    item:add_proto_expert_info(experts["error.message"], "no membership message: " .. ERRORS[refusal.code])
  end
end

local ROWS = { "node_rows", "group_rows", "region_rows" }

-- Rows can be read where a part is the whole list.
function READ.part_of_list(field, reader, tree, values)
  local range = take_rest(reader, field)
  values.content_bytes = range and range:len() or 0
  if not (tree and range) then
    return
  end
  local item = tree:add(entry_of(field), range)
  if values["list.offset"] ~= 0 or range:len() ~= values["list.total"] then
    item:add_proto_expert_info(experts["incomplete"])
    return
  end
  local rows = ROWS[values["list"]]
  local tvb = range:tvb()
  local refusal = try(read_message, rows, tvb, nil, {})
  if refusal then
    item:add_proto_expert_info(experts["error.rows"], "no rows of a list: " .. ERRORS[refusal.code])
    return
  end
  read_message(rows, tvb, item, values)
end

-- Whatever the answer to a question about a group is, the packet is one.
function READ.group_answer(field, reader, tree)
  local range = take_rest(reader, field)
  if not tree then
    return
  end
  local item = range and tree:add(entry_of(field), range) or tree:add(entry_of(field))
  local tvb = range and range:tvb()
  local refusal = not tvb and { code = "truncated" } or try(read_message, "decision_given", tvb, nil, {})
  if refusal then
    item:add_proto_expert_info(experts["error.answer"], "no account of a group: " .. ERRORS[refusal.code])
    return
  end
  read_message("decision_given", tvb, item, {})
end

-- Fields that are checked against each other, by kind of packet.
local CHECKS = {}

function CHECKS.group_query(values)
  local length = #values["name"]
  if length == 0 or length > GROUP_NAME_BYTES_MAX then
    refuse("bad_value", FIELDS["name"])
  end
end

function CHECKS.data(values)
  local age = values["view_age"]
  if age ~= 0xffffffff and values["sequence"] <= UInt64(age) then
    refuse("bad_value", FIELDS["view_age"])
  end
end

function CHECKS.request(values)
  if values["ranges_count"] == 0 then
    refuse("bad_length", FIELDS["ranges_count"])
  end
end

function CHECKS.ack(values)
  if values["cached_upto"] < values["stable_upto"] then
    refuse("bad_value", FIELDS["stable_upto"])
  end
end

function CHECKS.numbers(values)
  local from, next_group = values["from_group"], values["next_group"]
  local number_end = UInt64(0, 0x80000000)
  for _, row in ipairs(values["numbers_rows"]) do
    local first, last, group = row["numbers.first"], row["numbers.last"], row["numbers.group"]
    if last < first or last >= number_end or group < from or group >= next_group then
      refuse("bad_value", FIELDS["numbers"])
    end
    from = group + 1
  end
  if next_group ~= 0xffffffff and next_group <= values["from_group"] then
    refuse("bad_value", FIELDS["next_group"])
  end
end

function CHECKS.parity(values)
  if values["parity.first"] >= UInt64(0, 0x80000000) then
    refuse("bad_value", FIELDS["parity.first"])
  end
  if values["parity.count"] > 16 then
    refuse("bad_value", FIELDS["parity.count"])
  end
  if values["parity.row"] > 7 then
    refuse("bad_value", FIELDS["parity.row"])
  end
end

function CHECKS.list_reply(values)
  if values["list.version"] == UInt64(0) then
    refuse("bad_value", FIELDS["list.version"])
  end
  if values["list.offset"] + values.content_bytes > values["list.total"] then
    refuse("bad_value", FIELDS["list.offset"])
  end
end

-- What the line of a packet says.
local function summary_of(format, values, told)
  local words = { format.name }
  for _, name in ipairs(format.brief) do
    local value = values[name]
    if value ~= nil then
      local field = FIELDS[name]
      value = field.names and field.names[value] or field.hex and "0x" .. value:tohex() or value
      words[#words + 1] = field.label:lower() .. " " .. tostring(value)
    end
  end
  if values.chunks then
    words[#words + 1] = values.chunks .. (values.chunks == 1 and " chunk" or " chunks")
  end
  for _, word in ipairs(told) do
    words[#words + 1] = word
  end
  return table.concat(words, " ")
end

-- The header, and the format of what follows.
local function read_header(reader, tree, values)
  for _, name in ipairs(HEADER) do
    read_field(name, reader, tree, values)
    if name == "version" and values["version"] ~= VERSION then
      refuse("unknown_version", FIELDS["version"])
    end
    if name == "kind" and not PACKETS[values["kind"]] then
      refuse("unknown_kind", FIELDS["kind"])
    end
  end
end

-- Reads a packet to its end. What it has found is in `packet` even if it is refused.
local function read_packet(reader, tree, packet)
  local values = packet.values
  values.packet = packet
  local start = reader.at
  read_header(reader, tree, values)
  local format = PACKETS[values["kind"]]
  packet.format = format
  packet.maker = origin_text(values["node"], values["incarnation"])
  if tree then
    tree:append_text(" " .. format.name .. " by " .. packet.maker)
  end
  if values["flags"] == SEALED then
    refuse("sealed", FIELDS["flags"])
  end
  packet.bytes = reader.to - start
  read_fields(format.fields, reader, tree, values)
  if reader:left() > 0 then
    refuse("trailing_bytes")
  end
  if format.check ~= nil then
    CHECKS[format.check](values)
  end
end

local function new_packet(pinfo, index)
  return { pinfo = pinfo, index = index, values = {}, told = {}, maker = "" }
end

-- True if a packet of this protocol seems to begin here.
local function begins_packet(tvb, at)
  if at + HEADER_BYTES > tvb:len() then
    return false
  end
  return tvb(at, 1):uint() == VERSION and PACKETS[tvb(at + 1, 1):uint()] ~= nil and
    FIELDS["flags"].names[tvb(at + 2, 1):uint()] ~= nil and FIELDS["hop"].names[tvb(at + 3, 1):uint()] ~= nil
end

-- True if these bytes are one legal packet.
local function is_packet(tvb, from, to)
  return not try(read_packet, reader_of(tvb, from, to), nil, new_packet(nil, 0))
end

-- True if the datagram is legal packets of so many bytes each, the last of which may be shorter.
local function is_train_of(tvb, bytes)
  local length = tvb:reported_len()
  for from = 0, length - 1, bytes do
    if not is_packet(tvb, from, math.min(from + bytes, length)) then
      return false
    end
  end
  return true
end

-- Bytes of each packet but the last: a captured datagram may be a train that the kernel or the network
-- card divides only later, or has put together. Headers of one cluster have the same bytes there.
local function packet_bytes(tvb)
  local length = tvb:reported_len()
  if length < 2 * HEADER_BYTES or tvb:len() < length or not begins_packet(tvb, 0) then
    return length
  end
  -- Data may go on with what looks like a chunk.
  local is_data = PACKETS[tvb(1, 1):uint()].name == "Data"
  if not is_data and is_packet(tvb, 0, length) then
    return length
  end
  local all = tvb:raw()
  local cluster = all:sub(5, 8)
  local from = HEADER_BYTES + 5
  for _ = 1, TRAIN_TRIES do
    local found = all:find(cluster, from, true)
    if not found then
      break
    end
    if begins_packet(tvb, found - 5) and is_train_of(tvb, found - 5) then
      return found - 5
    end
    from = found + 1
  end
  return length
end

-- Shows one packet, and gives what its line says.
local function show_packet(tvb, from, to, pinfo, tree, index)
  local captured = math.min(to, tvb:len())
  local item = tree:add(qsm, tvb(from, captured - from), "Quicksilver")
  local packet = new_packet(pinfo, index)
  local refusal = try(read_packet, reader_of(tvb, from, to), item, packet)
  local name = packet.format and summary_of(packet.format, packet.values, packet.told) or "no packet"
  if not refusal then
    return name
  end
  if refusal.code == "cut" then
    item:add_proto_expert_info(experts["cut"])
    return name
  end
  local text = ERRORS[refusal.code] .. (refusal.field and " (" .. refusal.field.label:lower() .. ")" or "")
  item:add_proto_expert_info(experts["error." .. refusal.code], text)
  return "[Refused: " .. text .. "] " .. name
end

function qsm.dissector(tvb, pinfo, tree)
  pinfo.cols.protocol = "QSM"
  if tvb:len() == 0 then
    return 0
  end
  local length, each = tvb:reported_len(), packet_bytes(tvb)
  local index, info = 0, nil
  for from = 0, length - 1, each do
    if from >= tvb:len() then
      break
    end
    index = index + 1
    local said = show_packet(tvb, from, math.min(from + each, length), pinfo, tree, index)
    info = info or said
  end
  if index > 1 then
    tree:add(fields["qsm.train"], tvb(), index):set_generated()
    info = "Train of " .. index .. ": " .. info
  end
  pinfo.cols.info = info
  return length
end

local function looks_like_it(tvb, pinfo, tree)
  if not begins_packet(tvb, 0) then
    return false
  end
  qsm.dissector(tvb, pinfo, tree)
  return true
end

local udp_ports = DissectorTable.get("udp.port")
local ports_now

local function take_ports()
  if ports_now then
    udp_ports:remove(ports_now, qsm)
  end
  ports_now = qsm.prefs.ports
  udp_ports:add(ports_now, qsm)
end

qsm:register_heuristic("udp", looks_like_it)
take_ports()
qsm.prefs_changed = take_ports
