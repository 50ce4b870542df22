-- Quicksilver's packets in Wireshark and tshark. The tables are generated from the formats in
-- crates/qsm-dissector; `qsm dissector` prints this file.

local VERSION = 7
local HEADER_BYTES = 24
local MARKS_MAX = 128

local FIELDS = {
  ["about"] = { label = "About", says = "what a node says of itself", kind = "record", fields = { "host", "version_of_program", "uptime" } },
  ["about_given"] = { label = "About given", says = "says if the value follows", kind = "optional", value = "about" },
  ["added"] = { label = "Added", says = "members that are new", kind = "list", entry = "member" },
  ["address"] = { label = "Address", says = "address and port", kind = "address" },
  ["arrived_upto"] = { label = "Arrived upto", says = "smallest of the highest that each node received from the sender", kind = "number", bytes = 8 },
  ["base"] = { label = "Base", says = "view that this one changes", kind = "number", bytes = 4 },
  ["batch"] = { label = "Batch", says = "number of the batch", kind = "number", bytes = 8 },
  ["behind"] = { label = "Behind", says = "part of the last second that the node was behind", kind = "number", bytes = 1, unit = "%" },
  ["cached_upto"] = { label = "Cached upto", says = "number up to which cachers have everything", kind = "number", bytes = 8 },
  ["changed"] = { label = "Changed", says = "members that are otherwise now", kind = "list", entry = "member" },
  ["channel"] = { label = "Channel", says = "channel of a region", kind = "number", bytes = 4 },
  ["checksum"] = { label = "Checksum", says = "lower 32 bits of XXH3-64, not compared here", kind = "number", bytes = 4, hex = true },
  ["chunk.content"] = { label = "Content", says = "content", kind = "bytes" },
  ["chunk.first"] = { label = "First", says = "first part of its message", kind = "flag" },
  ["chunk.group"] = { label = "Group", says = "number of the group", kind = "number", bytes = 4 },
  ["chunk.last"] = { label = "Last", says = "last part of its message", kind = "flag" },
  ["chunk.length"] = { label = "Length", says = "bytes of content in this chunk", kind = "number", bytes = 2, unit = "B" },
  ["chunk.message"] = { label = "Message", says = "low 32 bits of the message's number", kind = "number", bytes = 4 },
  ["chunk.padding"] = { label = "Padding", says = "padding, which carries nothing", kind = "bytes" },
  ["chunk.total"] = { label = "Total", says = "length of the whole message", kind = "number", bytes = 4, unit = "B" },
  ["chunks"] = { label = "Chunks", says = "parts of messages", kind = "chunks" },
  ["cluster"] = { label = "Cluster", says = "FNV-1a of the cluster's name", kind = "number", bytes = 4, hex = true },
  ["common"] = { label = "Common", says = "packets that all miss", kind = "range" },
  ["content"] = { label = "Content", says = "a membership message, or a part of one", kind = "message" },
  ["credit"] = { label = "Credit", says = "smallest receive buffer so far", kind = "number", bytes = 4, unit = "B" },
  ["dead"] = { label = "Dead", says = "nodes known to be dead", kind = "list", entry = "origin" },
  ["deaf"] = { label = "Deaf", says = "the speaker is not heard", kind = "flag" },
  ["embedded"] = { label = "Embedded", says = "the service runs inside a node", kind = "flag" },
  ["finished"] = { label = "Finished", says = "nothing follows", kind = "flag" },
  ["flags"] = { label = "Flags", says = "coverage of the checksum", kind = "number", bytes = 1, names = { [0] = "the header of data", [1] = "the whole datagram" } },
  ["for_itself"] = { label = "For itself", says = "the maker misses them too", kind = "flag" },
  ["from_group"] = { label = "From group", says = "first group asked about", kind = "number", bytes = 4 },
  ["from_service"] = { label = "From service", says = "message from the service", kind = "choice", variants = {
    [1] = { name = "Welcome", fields = { "incarnation_given", "term", "heartbeat" } },
    [2] = { name = "Batch", fields = { "batch", "updates" } },
    [3] = { name = "Done", fields = { "request" } },
    [4] = { name = "Refused", fields = { "request", "reason" } },
    [5] = { name = "Nodes", fields = { "request", "node_rows" } },
    [6] = { name = "Groups", fields = { "request", "group_rows" } },
    [7] = { name = "Regions", fields = { "request", "region_rows" } },
    [8] = { name = "Redirect", fields = { "address" } },
  } },
  ["group"] = { label = "Group", says = "number of the group", kind = "number", bytes = 4 },
  ["group_given"] = { label = "Group given", says = "says if the value follows", kind = "optional", value = "group" },
  ["group_report"] = { label = "Group report", says = "a group", kind = "record", fields = { "group_given", "name", "role" } },
  ["group_reports"] = { label = "Group reports", says = "groups of the node", kind = "list", entry = "group_report" },
  ["group_row"] = { label = "Group row", says = "a group", kind = "record", fields = { "group", "name", "members_count", "regions_count", "publishers_count" } },
  ["group_rows"] = { label = "Group rows", says = "groups", kind = "list", entry = "group_row" },
  ["groups"] = { label = "Groups", says = "numbers of groups", kind = "list", entry = "group" },
  ["groups_count"] = { label = "Groups count", says = "groups of the region", kind = "number", bytes = 4 },
  ["heard_upto"] = { label = "Heard upto", says = "last frame heard from the other side", kind = "number", bytes = 8 },
  ["hearing"] = { label = "Hearing", says = "how the asker hears the speaker", kind = "number", bytes = 1, names = { [0] = "unsure", [1] = "deaf", [2] = "hears again" } },
  ["hears_badly"] = { label = "Hears badly", says = "it does not hear a speaker", kind = "flag" },
  ["heartbeat"] = { label = "Heartbeat", says = "time between heartbeats", kind = "number", bytes = 4, unit = "ms" },
  ["held"] = { label = "Held", says = "part of the last second that it held back senders", kind = "number", bytes = 1, unit = "%" },
  ["highest"] = { label = "Highest", says = "last number sent, 0 before the first", kind = "number", bytes = 8 },
  ["hop"] = { label = "Hop", says = "way by which the packet came", kind = "number", bytes = 1, names = { [0] = "direct", [1] = "repair by the sender", [2] = "repair by a cacher", [3] = "push", [4] = "repair after a pull", [5] = "copy by unicast" } },
  ["host"] = { label = "Host", says = "name of the host", kind = "text" },
  ["incarnation"] = { label = "Incarnation", says = "incarnation of the node that made it", kind = "number", bytes = 4 },
  ["incarnation_given"] = { label = "Incarnation given", says = "incarnation of the node", kind = "number", bytes = 4 },
  ["incarnation_wanted"] = { label = "Incarnation wanted", says = "incarnation, 0 in a first Hello", kind = "number", bytes = 4 },
  ["joined"] = { label = "Joined", says = "view in which the asker joined", kind = "number", bytes = 4 },
  ["kind"] = { label = "Kind", says = "kind of packet", kind = "number", bytes = 1 },
  ["last_channel"] = { label = "Last channel", says = "highest channel heard of", kind = "number", bytes = 4 },
  ["last_incarnation"] = { label = "Last incarnation", says = "highest incarnation heard of", kind = "number", bytes = 4 },
  ["last_region"] = { label = "Last region", says = "highest region heard of", kind = "number", bytes = 4 },
  ["leader"] = { label = "Leader", says = "leader of the region", kind = "origin" },
  ["leaving"] = { label = "Leaving", says = "members that leave", kind = "list", entry = "origin" },
  ["level"] = { label = "Level", says = "0: ring of a partition; above: rings of leaders", kind = "number", bytes = 1, all_ones = "the call" },
  ["list"] = { label = "List", says = "list that is asked for", kind = "number", bytes = 1, names = { [1] = "nodes", [2] = "groups", [3] = "regions" } },
  ["list.offset"] = { label = "Offset", says = "where in the list this part begins", kind = "number", bytes = 4, unit = "B" },
  ["list.total"] = { label = "Total", says = "bytes of the whole list", kind = "number", bytes = 4, unit = "B" },
  ["list.version"] = { label = "Version", says = "version of the list; in a question 0: the newest", kind = "number", bytes = 8 },
  ["losers"] = { label = "Losers", says = "members that miss packets", kind = "number", bytes = 2 },
  ["mark"] = { label = "Mark", says = "progress of a partition, 0 if unknown", kind = "number", bytes = 8 },
  ["marks"] = { label = "Marks", says = "progress of the partitions", kind = "marks" },
  ["member"] = { label = "Member", says = "a member", kind = "record", fields = { "origin", "address", "member.joined", "member.left_given", "member.away_given" } },
  ["member.away"] = { label = "Away", says = "reason for being away", kind = "number", bytes = 1, names = { [1] = "silent", [2] = "unreachable for members", [3] = "unreported to a new service", [4] = "slower than the others" } },
  ["member.away_given"] = { label = "Away given", says = "says if the value follows", kind = "optional", value = "member.away" },
  ["member.joined"] = { label = "Joined", says = "view in which the member joined", kind = "number", bytes = 4 },
  ["member.left"] = { label = "Left", says = "view in which the member left", kind = "number", bytes = 4 },
  ["member.left_given"] = { label = "Left given", says = "says if the value follows", kind = "optional", value = "member.left" },
  ["members"] = { label = "Members", says = "members of the region, in order", kind = "list", entry = "member" },
  ["members_count"] = { label = "Members count", says = "members of the group", kind = "number", bytes = 4 },
  ["missing"] = { label = "Missing", says = "packets that are missing", kind = "range" },
  ["more"] = { label = "More", says = "the message goes on in the next frame", kind = "flag" },
  ["multicast"] = { label = "Multicast", says = "this is that reply", kind = "flag" },
  ["name"] = { label = "Name", says = "name of a node or group", kind = "text" },
  ["names"] = { label = "Names", says = "names of groups", kind = "list", entry = "name" },
  ["next_group"] = { label = "Next group", says = "first group of the next part", kind = "number", bytes = 4, all_ones = "none: this is the last part" },
  ["node"] = { label = "Node", says = "node that made the packet", kind = "number", bytes = 8, hex = true },
  ["node_row"] = { label = "Node row", says = "a node", kind = "record", fields = { "origin", "name", "address", "region_given", "subscriptions", "publications", "member.away_given", "hears_badly", "about_given", "rates_given" } },
  ["node_rows"] = { label = "Node rows", says = "nodes", kind = "list", entry = "node_row" },
  ["nonce"] = { label = "Nonce", says = "tells answers apart", kind = "number", bytes = 8, hex = true },
  ["number"] = { label = "Number", says = "number of the frame in its direction", kind = "number", bytes = 8, min = 1 },
  ["numbers"] = { label = "Numbers", says = "a group's numbers", kind = "record", fields = { "numbers.group", "numbers.first", "numbers.last" } },
  ["numbers.first"] = { label = "First", says = "first message owed, 0 if that is not known", kind = "number", bytes = 8 },
  ["numbers.group"] = { label = "Group", says = "number of the group", kind = "number", bytes = 4 },
  ["numbers.last"] = { label = "Last", says = "last message up to the position", kind = "number", bytes = 8 },
  ["numbers_count"] = { label = "Numbers count", says = "number of groups", kind = "number", bytes = 1 },
  ["numbers_rows"] = { label = "Numbers rows", says = "numbers of groups", kind = "list", entry = "numbers", count = "numbers_count", max = 255 },
  ["opening"] = { label = "Opening", says = "start of a view", kind = "record", fields = { "opening.view", "opening.start" } },
  ["opening.start"] = { label = "Start", says = "first number sent in the view", kind = "number", bytes = 8 },
  ["opening.view"] = { label = "View", says = "view", kind = "number", bytes = 4 },
  ["openings"] = { label = "Openings", says = "starts of views, newest first", kind = "list", entry = "opening", count = "openings_count", max = 32 },
  ["openings_count"] = { label = "Openings count", says = "number of openings", kind = "number", bytes = 1 },
  ["origin"] = { label = "Origin", says = "node and incarnation", kind = "origin" },
  ["own_senders"] = { label = "Own senders", says = "senders heard", kind = "list", entry = "origin" },
  ["position"] = { label = "Position", says = "packet passed over, or the last spoken of", kind = "number", bytes = 8 },
  ["publications"] = { label = "Publications", says = "groups published to", kind = "number", bytes = 4 },
  ["published"] = { label = "Published", says = "the node has published", kind = "flag" },
  ["publishers_count"] = { label = "Publishers count", says = "publishers to the group", kind = "number", bytes = 4 },
  ["range"] = { label = "Range", says = "packets", kind = "range" },
  ["ranges"] = { label = "Ranges", says = "packets, ascending", kind = "list", entry = "range", count = "ranges_count", max = 8 },
  ["ranges_count"] = { label = "Ranges count", says = "number of ranges", kind = "number", bytes = 1 },
  ["rate"] = { label = "Rate", says = "smallest receive rate so far", kind = "number", bytes = 4, unit = "packets/s", all_ones = "nobody objects" },
  ["rates"] = { label = "Rates", says = "rates of a node", kind = "record", fields = { "sent_per_second", "received_per_second" } },
  ["rates_given"] = { label = "Rates given", says = "says if the value follows", kind = "optional", value = "rates" },
  ["reach.nonce"] = { label = "Nonce", says = "tells answers apart", kind = "number", bytes = 4, hex = true },
  ["reason"] = { label = "Reason", says = "reason of the refusal", kind = "text" },
  ["received_per_second"] = { label = "Received per second", says = "messages received per second", kind = "number", bytes = 4, unit = "messages/s" },
  ["region"] = { label = "Region", says = "region", kind = "number", bytes = 4 },
  ["region_given"] = { label = "Region given", says = "says if the value follows", kind = "optional", value = "region" },
  ["region_report"] = { label = "Region report", says = "a region", kind = "record", fields = { "region", "view", "channel", "address", "members", "groups" } },
  ["region_reports"] = { label = "Region reports", says = "regions of the node", kind = "list", entry = "region_report" },
  ["region_row"] = { label = "Region row", says = "a region", kind = "record", fields = { "region", "view", "address", "groups_count", "members" } },
  ["region_rows"] = { label = "Region rows", says = "regions", kind = "list", entry = "region_row" },
  ["regions_count"] = { label = "Regions count", says = "regions of the group", kind = "number", bytes = 4 },
  ["relayed"] = { label = "Relayed", says = "a member has passed the question on", kind = "flag" },
  ["removed"] = { label = "Removed", says = "members that are gone", kind = "list", entry = "origin" },
  ["request"] = { label = "Request", says = "number that the answer repeats", kind = "number", bytes = 4 },
  ["requester"] = { label = "Requester", says = "member index of one who misses the packets", kind = "number", bytes = 2 },
  ["requesters"] = { label = "Requesters", says = "who misses the packets", kind = "list", entry = "requester", count = "requesters_count", max = 8 },
  ["requesters_count"] = { label = "Requesters count", says = "number of requesters", kind = "number", bytes = 1 },
  ["ring"] = { label = "Ring", says = "ring at this level", kind = "number", bytes = 2 },
  ["role"] = { label = "Role", says = "role in the groups", kind = "number", bytes = 1, names = { [1] = "subscriber", [2] = "publisher" } },
  ["round"] = { label = "Round", says = "round of tokens", kind = "number", bytes = 8 },
  ["rows"] = { label = "Rows", says = "rows of the list, or a part of them", kind = "part_of_list" },
  ["second_address"] = { label = "Second address", says = "address on the second network", kind = "address" },
  ["second_given"] = { label = "Second given", says = "says if the value follows", kind = "optional", value = "second_address" },
  ["sender"] = { label = "Sender", says = "a sender", kind = "record", fields = { "origin", "address" } },
  ["senders"] = { label = "Senders", says = "senders to the region", kind = "list", entry = "sender" },
  ["sent_per_second"] = { label = "Sent per second", says = "messages sent per second", kind = "number", bytes = 4, unit = "messages/s" },
  ["sequence"] = { label = "Sequence", says = "number of the packet in its stream", kind = "number", bytes = 8, min = 1 },
  ["session"] = { label = "Session", says = "number of the session", kind = "number", bytes = 8, hex = true },
  ["silent"] = { label = "Silent", says = "time without a word", kind = "number", bytes = 4, unit = "ms" },
  ["slot"] = { label = "Slot", says = "a stream's state in the round", kind = "record", fields = { "slot.origin", "slot.cutoff", "slot.highest", "slot.arrived", "slot.cached", "slot.stable", "slot.stable_upto", "slot.cached_upto", "slot.losers", "slot.naks_cut", "slot.common_cut", "slot.naks_count", "slot.common_count", "slot.naks", "slot.commons" } },
  ["slot.arrived"] = { label = "Arrived", says = "smallest of the highest that each node received from the sender", kind = "number", bytes = 8 },
  ["slot.cached"] = { label = "Cached", says = "progress of the cachers so far", kind = "number", bytes = 8 },
  ["slot.cached_upto"] = { label = "Cached upto", says = "number up to which cachers have everything", kind = "number", bytes = 8 },
  ["slot.common_count"] = { label = "Common count", says = "number of ranges", kind = "number", bytes = 1 },
  ["slot.common_cut"] = { label = "Common cut", says = "more is missing than the ranges say", kind = "flag" },
  ["slot.commons"] = { label = "Commons", says = "packets missing in common", kind = "list", entry = "common", count = "slot.common_count", max = 8 },
  ["slot.cutoff"] = { label = "Cutoff", says = "number up to which the round speaks", kind = "number", bytes = 8 },
  ["slot.highest"] = { label = "Highest", says = "highest number known", kind = "number", bytes = 8 },
  ["slot.losers"] = { label = "Losers", says = "members that miss packets", kind = "number", bytes = 2 },
  ["slot.naks"] = { label = "Naks", says = "packets missing", kind = "list", entry = "missing", count = "slot.naks_count", max = 8 },
  ["slot.naks_count"] = { label = "Naks count", says = "number of ranges", kind = "number", bytes = 1 },
  ["slot.naks_cut"] = { label = "Naks cut", says = "more is missing than the ranges say", kind = "flag" },
  ["slot.origin"] = { label = "Origin", says = "sender of the stream", kind = "origin" },
  ["slot.stable"] = { label = "Stable", says = "progress of all so far", kind = "number", bytes = 8 },
  ["slot.stable_upto"] = { label = "Stable upto", says = "number up to which all have everything", kind = "number", bytes = 8 },
  ["slot_marks"] = { label = "Slot marks", says = "progress of the partitions in each slot", kind = "slot_marks" },
  ["slots"] = { label = "Slots", says = "states of streams", kind = "list", entry = "slot", count = "slots_count", max = 255 },
  ["slots_count"] = { label = "Slots count", says = "number of slots", kind = "number", bytes = 1 },
  ["speaker"] = { label = "Speaker", says = "speaker that is heard, or not", kind = "origin" },
  ["spoken"] = { label = "Spoken", says = "number of the newest reply by multicast", kind = "number", bytes = 4 },
  ["stable_upto"] = { label = "Stable upto", says = "number up to which all have everything", kind = "number", bytes = 8 },
  ["stream"] = { label = "Stream", says = "sender of the stream that is spoken of", kind = "origin" },
  ["subject"] = { label = "Subject", says = "node that is asked about", kind = "origin" },
  ["subscriptions"] = { label = "Subscriptions", says = "groups subscribed to", kind = "number", bytes = 4 },
  ["summary_slot"] = { label = "Summary slot", says = "a stream's state", kind = "record", fields = { "slot.origin", "slot.cutoff", "slot.stable_upto", "slot.cached_upto" } },
  ["summary_slots"] = { label = "Summary slots", says = "states of streams", kind = "list", entry = "summary_slot", count = "slots_count", max = 36 },
  ["suspect"] = { label = "Suspect", says = "member index of one that is silent", kind = "number", bytes = 2 },
  ["suspects"] = { label = "Suspects", says = "members that are silent", kind = "list", entry = "suspect", count = "suspects_count", max = 8 },
  ["suspects_count"] = { label = "Suspects count", says = "number of suspects", kind = "number", bytes = 1 },
  ["term"] = { label = "Term", says = "term of the membership service", kind = "number", bytes = 8 },
  ["to_service"] = { label = "To service", says = "message to the service", kind = "choice", variants = {
    [1] = { name = "Hello", fields = { "name", "address", "second_given", "incarnation_wanted", "term", "group_reports", "region_reports", "last_region", "last_channel", "last_incarnation", "dead", "own_senders", "published" } },
    [2] = { name = "Enter", fields = { "request", "role", "names" } },
    [3] = { name = "Exit", fields = { "request", "role", "names" } },
    [4] = { name = "Drained", fields = { "region", "view" } },
    [5] = { name = "Suspect", fields = { "origin", "silent" } },
    [6] = { name = "Query", fields = { "request", "list" } },
    [7] = { name = "Goodbye", fields = {} },
    [8] = { name = "CaughtUp", fields = { "region", "view" } },
    [9] = { name = "Deaf", fields = { "region", "speaker", "deaf" } },
    [10] = { name = "Strained", fields = { "region", "behind", "held" } },
    [11] = { name = "About", fields = { "host", "version_of_program", "uptime" } },
    [12] = { name = "Rates", fields = { "sent_per_second", "received_per_second" } },
  } },
  ["tried"] = { label = "Tried", says = "bit r: the cacher of rank r misses all of them", kind = "number", bytes = 4, hex = true },
  ["update"] = { label = "Update", says = "a change", kind = "choice", variants = {
    [1] = { name = "Named", fields = { "group", "name" } },
    [2] = { name = "Region", fields = { "region", "channel", "address", "groups" } },
    [3] = { name = "View", fields = { "region", "view", "base", "removed", "leaving", "changed", "added" } },
    [4] = { name = "Closed", fields = { "region" } },
    [5] = { name = "Dead", fields = { "origin" } },
    [6] = { name = "Settled", fields = { "region", "view", "senders" } },
    [7] = { name = "Second", fields = { "address", "second_address" } },
    [8] = { name = "Sources", fields = { "region", "senders" } },
  } },
  ["updates"] = { label = "Updates", says = "changes", kind = "list", entry = "update" },
  ["uptime"] = { label = "Uptime", says = "time since the node started", kind = "number", bytes = 8, unit = "ms" },
  ["version"] = { label = "Version", says = "version of the formats", kind = "number", bytes = 1 },
  ["version_of_program"] = { label = "Version of program", says = "version of the program", kind = "text" },
  ["view"] = { label = "View", says = "view of the region", kind = "number", bytes = 4 },
  ["view_age"] = { label = "View age", says = "packets of the same view before this one", kind = "number", bytes = 4, all_ones = "too many to tell" },
  ["visited"] = { label = "Visited", says = "members that have had the token", kind = "number", bytes = 2 },
  ["zero"] = { label = "Zero", says = "always 0", kind = "zero" },
  ["zeros"] = { label = "Zeros", says = "room for the answer", kind = "zeros" },
}

local HEADER = { "version", "kind", "flags", "hop", "cluster", "node", "incarnation", "checksum" }

local PACKETS = {
  [1] = { name = "Data", check = "data",
    fields = { "channel", "view", "sequence", "view_age", "chunks" },
    brief = { "channel", "view", "sequence" } },
  [2] = { name = "Heartbeat",
    fields = { "channel", "stream", "highest", "finished", "openings_count", "openings" },
    brief = { "channel", "stream", "highest" } },
  [3] = { name = "Nak", check = "request",
    fields = { "channel", "stream", "view", "tried", "for_itself", "requesters_count", "ranges_count", "zero", "requesters", "ranges" },
    brief = { "channel", "stream", "view" } },
  [4] = { name = "Pull", check = "request",
    fields = { "channel", "stream", "view", "tried", "for_itself", "requesters_count", "ranges_count", "zero", "requesters", "ranges" },
    brief = { "channel", "stream", "view" } },
  [5] = { name = "Token",
    fields = { "region", "view", "leader", "round", "level", "ring", "visited", "rate", "credit", "suspects_count", "suspects", "slots_count", "slots", "slot_marks" },
    brief = { "region", "view", "round", "level" } },
  [6] = { name = "TokenAck",
    fields = { "region", "leader", "round", "level" },
    brief = { "region", "round", "level" } },
  [7] = { name = "Summary",
    fields = { "region", "view", "round", "slots_count", "summary_slots" },
    brief = { "region", "view", "round" } },
  [8] = { name = "Ack", check = "ack",
    fields = { "channel", "stream", "region", "view", "round", "stable_upto", "cached_upto", "arrived_upto", "rate", "credit", "losers", "marks" },
    brief = { "channel", "stream", "region", "view", "round" } },
  [9] = { name = "StreamQuery",
    fields = { "channel", "stream" },
    brief = { "channel", "stream" } },
  [10] = { name = "Session",
    fields = { "session", "number", "heard_upto", "more", "content" },
    brief = { "session", "number" } },
  [11] = { name = "Beacon",
    fields = { "address", "term", "embedded", "second_given" },
    brief = { "address" } },
  [12] = { name = "Solicit",
    fields = {},
    brief = {} },
  [13] = { name = "Probe",
    fields = { "subject", "nonce" },
    brief = {} },
  [14] = { name = "ProbeReply",
    fields = { "subject", "nonce" },
    brief = {} },
  [15] = { name = "Absent",
    fields = { "channel", "stream", "ranges_count", "ranges" },
    brief = { "channel", "stream" } },
  [16] = { name = "SessionAck",
    fields = { "session", "heard_upto" },
    brief = { "session" } },
  [17] = { name = "SessionReset",
    fields = { "session" },
    brief = { "session" } },
  [18] = { name = "CatchUp",
    fields = { "region", "view", "nonce" },
    brief = { "region", "view" } },
  [19] = { name = "Reach",
    fields = { "region", "speaker", "reach.nonce", "hearing", "relayed" },
    brief = { "region", "speaker", "hearing" } },
  [20] = { name = "ReachReply",
    fields = { "region", "reach.nonce", "spoken", "multicast" },
    brief = { "region" } },
  [21] = { name = "NumbersQuery",
    fields = { "channel", "stream", "joined", "position", "from_group" },
    brief = { "channel", "stream" } },
  [22] = { name = "Numbers", check = "numbers",
    fields = { "channel", "stream", "joined", "position", "from_group", "next_group", "numbers_count", "numbers_rows" },
    brief = { "channel", "stream" } },
  [23] = { name = "ListQuery",
    fields = { "nonce", "list", "list.version", "list.offset", "zeros" },
    brief = { "list" } },
  [24] = { name = "ListReply", check = "list_reply",
    fields = { "nonce", "list", "list.version", "list.total", "list.offset", "rows" },
    brief = { "list" } },
}

-- The reader of packets: everything above it is data.

local PORTS = "4481,4483-4484"
local SERVICE_PORT = 4481
-- As in PROTOCOL.md: no message of a session is longer, nor any datagram.
local MESSAGE_BYTES_MAX = 8 * 1024 * 1024
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
  zero = function(name, field)
    add_field(name, ProtoField.uint8(name, field.label, base.DEC, nil, nil, field.says))
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
  local content = field.kind == "message" or field.kind == "part_of_list" or field.kind == "zeros"
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

function READ.zero(field, reader, tree)
  local range = reader:take(1, field)
  if tree then
    tree:add(entry_of(field), range)
  end
  if range:uint() ~= 0 then
    refuse("bad_length", field)
  end
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

-- Fields that are checked against each other, by kind of packet.
local CHECKS = {}

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
