// What every program of the comparison does, for Go; ../common/bench.h describes it.

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	header     = 16
	tail       = 8
	stampBits  = 44
	stampMask  = 1<<stampBits - 1
	numberBits = 48
	numberMask = 1<<numberBits - 1
	// The clock is read once in so many messages where no latency is taken.
	clockEvery = 16
	// Messages to a rare group.
	rareEvery = 100
	// A receiver that is short of messages gives up after so long without one.
	patience = uint64(10 * time.Second)
	phases   = 256
	// Buckets of at most 1/64 relative width.
	fineBits = 6
	fine     = 1 << fineBits
)

type options struct {
	sends     bool
	senders   []string
	receivers int
	index     int
	port      int
	groups    int
	// Those that all receivers have, how many; of the others, which this one has.
	common int
	wants  []string
	payload   int
}

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	os.Exit(1)
}

func parse(arguments []string) options {
	parsed := options{sends: arguments[0] == "send"}
	number := func(text string) int {
		value, err := strconv.Atoi(text)
		if err != nil {
			fail("command line", err)
		}
		return value
	}
	for at := 1; at+1 < len(arguments); at += 2 {
		value := arguments[at+1]
		switch arguments[at] {
		case "--senders":
			parsed.senders = strings.Split(value, ",")
		case "--receivers":
			parsed.receivers = number(value)
		case "--index":
			parsed.index = number(value)
		case "--port":
			parsed.port = number(value)
		case "--groups":
			parsed.groups = number(value)
		case "--common":
			parsed.common = number(value)
		case "--wants":
			parsed.wants = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		case "--payload":
			parsed.payload = number(value)
		case "--interface", "--address", "--set", "--audience":
		default:
			fail("command line", fmt.Errorf("unknown option %s", arguments[at]))
		}
	}
	if parsed.common < 1 || parsed.common > parsed.groups {
		parsed.common = parsed.groups
	}
	return parsed
}

// Which groups a receiver has.
func (o options) wanted() []bool {
	wanted := make([]bool, o.groups)
	for group := range o.common {
		wanted[group] = true
	}
	for _, text := range o.wants {
		group, err := strconv.Atoi(text)
		if err != nil || group < 0 || group >= o.groups {
			fail("--wants", fmt.Errorf("there is no group %s", text))
		}
		wanted[group] = true
	}
	return wanted
}

func (o options) pattern() []byte {
	pattern := make([]byte, o.payload)
	for at := range pattern {
		pattern[at] = byte(at*7 + 3)
	}
	return pattern
}

// The monotonic clock, which all processes of a machine share.
func now() uint64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		fail("clock_gettime", err)
	}
	return uint64(time.Nano())
}

// A load generator; send waits until the system has accepted the message.
type load struct {
	options options
	message []byte
	numbers []uint64
	send    func(group int, message []byte)
	flush   func()
}

func runSender(o options, send func(int, []byte), flush func()) {
	l := load{o, o.pattern(), make([]uint64, o.groups), send, flush}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var phase, millis, rate uint64
		if lines.Text() == "probe" {
			for group := range l.numbers {
				l.one(0, group, 0)
			}
			flush()
			fmt.Println("probed")
		} else if n, _ := fmt.Sscanf(lines.Text(), "go %d %d %d", &phase, &millis, &rate); n == 3 {
			l.phase(phase, millis, rate)
		} else {
			return
		}
	}
}

func (l *load) one(phase uint64, group int, stamp uint64) {
	l.numbers[group]++
	name := l.numbers[group] | phase<<numberBits | uint64(l.options.index)<<56
	binary.LittleEndian.PutUint64(l.message, name)
	binary.LittleEndian.PutUint64(l.message[8:], stamp&stampMask|uint64(group)<<stampBits)
	if len(l.message) >= header+tail {
		binary.LittleEndian.PutUint64(l.message[len(l.message)-tail:], name)
	}
	l.send(group, l.message)
}

func (l *load) phase(phase, millis, rate uint64) {
	clear(l.numbers)
	start := now()
	var sent uint64
	if rate > 0 {
		sent = l.pace(phase, start, rate*millis/1000, rate)
	} else {
		sent = l.flood(phase, start+millis*1_000_000)
	}
	l.flush()
	end := now()
	rare := strings.ReplaceAll(strings.Trim(fmt.Sprint(l.numbers[l.options.common:]), "[]"), " ", ",")
	fmt.Printf("sent {\"messages\":%d,\"start_ns\":%d,\"end_ns\":%d,\"rare\":[%s]}\n", sent, start, end, rare)
}

func (l *load) flood(phase, end uint64) uint64 {
	common, groups := l.options.common, len(l.numbers)
	sent, group, rare := uint64(0), 0, common
	for {
		for range clockEvery {
			sent++
			if rare < groups && sent%rareEvery == 0 {
				l.one(phase, rare, 0)
				if rare++; rare == groups {
					rare = common
				}
				continue
			}
			l.one(phase, group, 0)
			group = (group + 1) % common
		}
		if now() >= end {
			return sent
		}
	}
}

// Stamps each message with the time at which it was due, not with that at which it could be sent.
// The kernel's sleep is used: the runtime's timers are coarser.
func (l *load) pace(phase, start, total, rate uint64) uint64 {
	for number := range total {
		due := start + number*1_000_000_000/rate
		until := unix.NsecToTimespec(int64(due))
		for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil) == unix.EINTR {
		}
		l.one(phase, int(number)%len(l.numbers), due)
	}
	return total
}

type cursor struct {
	next  uint64
	phase uint64
	heard bool
}

// Checks and counts; the dialogue looks on.
type verifier struct {
	options    options
	pattern    []byte
	lock       sync.Mutex
	wanted     []bool
	cursors    []cursor
	unheard    int
	sinceClock uint64
	messages   [phases]atomic.Uint64
	wrong      atomic.Uint64
	last       atomic.Uint64
	histogram  [stampBits * fine]uint32
	most       uint64
	timed      uint64
}

func newVerifier(o options) *verifier {
	wanted, has := o.wanted(), 0
	for _, wants := range wanted {
		if wants {
			has++
		}
	}
	cursors := make([]cursor, len(o.senders)*o.groups)
	return &verifier{options: o, pattern: o.pattern(), wanted: wanted, cursors: cursors, unheard: len(o.senders) * has}
}

// Subscriptions have threads of their own.
func (v *verifier) deliver(message []byte) {
	v.lock.Lock()
	defer v.lock.Unlock()
	if !v.take(message) {
		v.wrong.Add(1)
	}
}

func (v *verifier) take(message []byte) bool {
	if !v.intact(message) {
		return false
	}
	name, place := binary.LittleEndian.Uint64(message), binary.LittleEndian.Uint64(message[8:])
	phase, group := name>>numberBits&0xff, int(place>>stampBits)
	stream := int(name>>56)*v.options.groups + group
	if group >= v.options.groups || stream >= len(v.cursors) || !v.wanted[group] {
		return false
	}
	at := &v.cursors[stream]
	if phase == 0 {
		if !at.heard {
			at.heard = true
			v.unheard--
			if v.unheard == 0 {
				fmt.Println("heard")
			}
		}
		return true
	}
	if at.phase != phase {
		at.phase, at.next = phase, 1
	}
	number := name & numberMask
	expected := number == at.next
	at.next = number + 1
	v.count(phase, place&stampMask)
	return expected
}

func (v *verifier) intact(message []byte) bool {
	length := len(message)
	if length != len(v.pattern) || length < header {
		return false
	}
	if length < header+tail {
		return bytes.Equal(message[header:], v.pattern[header:])
	}
	return bytes.Equal(message[length-tail:], message[:tail]) &&
		bytes.Equal(message[header:length-tail], v.pattern[header:length-tail])
}

func (v *verifier) count(phase, stamp uint64) {
	if stamp != 0 || v.sinceClock%clockEvery == 0 {
		time := now()
		v.last.Store(time)
		if stamp != 0 {
			v.time(phase, (time-stamp)&stampMask)
		}
	}
	v.sinceClock++
	v.messages[phase].Add(1)
}

func (v *verifier) time(phase, latency uint64) {
	if v.timed != phase {
		clear(v.histogram[:])
		v.most, v.timed = 0, phase
	}
	v.histogram[bucket(latency)]++
	v.most = max(v.most, latency)
}

func bucket(value uint64) uint64 {
	if value < fine {
		return value
	}
	shift := uint64(63 - bits.LeadingZeros64(value) - fineBits)
	return shift<<fineBits + value>>shift
}

// The upper end of a bucket.
func bucketValue(bucket uint64) uint64 {
	if bucket < 2*fine {
		return bucket
	}
	shift := bucket>>fineBits - 1
	return (bucket - shift<<fineBits + 1) << shift
}

func (v *verifier) quantile(count uint64, share float64) float64 {
	rank, seen := uint64(float64(count)*share), uint64(0)
	for at, here := range v.histogram {
		seen += uint64(here)
		if seen > rank {
			return float64(bucketValue(uint64(at))) / 1e3
		}
	}
	return float64(v.most) / 1e3
}

func (v *verifier) dialogue() {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var phase, goal uint64
		if n, _ := fmt.Sscanf(lines.Text(), "await %d %d", &phase, &goal); n != 2 {
			return
		}
		v.await(phase, goal)
	}
}

func (v *verifier) await(phase, goal uint64) {
	seen, progress := uint64(0), now()
	for {
		count, time := v.messages[phase].Load(), now()
		if count >= goal || time-progress > patience {
			break
		}
		if count != seen {
			seen, progress = count, time
		}
		pause()
	}
	v.lock.Lock()
	defer v.lock.Unlock()
	count := v.messages[phase].Load()
	fmt.Printf("received {\"messages\":%d,\"wrong\":%d,\"last_ns\":%d", count, v.wrong.Load(), v.last.Load())
	if v.timed == phase {
		fmt.Printf(",\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f",
			v.quantile(count, 0.5), v.quantile(count, 0.99), v.quantile(count, 0.999), float64(v.most)/1e3)
	}
	fmt.Println("}")
}

func pause() { time.Sleep(500 * time.Microsecond) }
