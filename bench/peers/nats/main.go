// NATS without persistence: a subject for each group, the server within the first sender.

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

func main() {
	o := parse(os.Args[1:])
	if o.sends && o.index == 0 {
		defer serve(o).Shutdown()
	}
	url := fmt.Sprintf("nats://%s:%d", o.senders[0], o.port)
	connection, err := nats.Connect(url, nats.NoReconnect())
	if err != nil {
		fail("connect", err)
	}
	defer connection.Close()
	subjects := make([]string, o.groups)
	for group := range subjects {
		subjects[group] = fmt.Sprintf("bench.%d", group)
	}
	if o.sends {
		publish(o, connection, subjects)
	} else {
		subscribe(o, connection, subjects)
	}
}

// The server stalls publishers while subscribers are behind, and disconnects those that are
// further behind than its limits allow: these are wide.
func serve(o options) *server.Server {
	broker, err := server.NewServer(&server.Options{
		Host:          o.senders[0],
		Port:          o.port,
		NoSigs:        true,
		MaxPending:    256 << 20,
		WriteDeadline: time.Minute,
	})
	if err != nil {
		fail("server", err)
	}
	go broker.Start()
	if !broker.ReadyForConnections(10 * time.Second) {
		fail("server", fmt.Errorf("not ready within 10 s"))
	}
	return broker
}

func publish(o options, connection *nats.Conn, subjects []string) {
	send := func(group int, message []byte) {
		if err := connection.Publish(subjects[group], message); err != nil {
			fail("publish", err)
		}
	}
	flush := func() {
		if err := connection.FlushTimeout(time.Minute); err != nil {
			fail("flush", err)
		}
	}
	runSender(o, send, flush)
}

func subscribe(o options, connection *nats.Conn, subjects []string) {
	v := newVerifier(o)
	for group, subject := range subjects {
		if !v.wanted[group] {
			continue
		}
		subscription, err := connection.Subscribe(subject, func(message *nats.Msg) { v.deliver(message.Data) })
		if err != nil {
			fail("subscribe", err)
		}
		if err := subscription.SetPendingLimits(-1, -1); err != nil {
			fail("pending limits", err)
		}
	}
	if err := connection.Flush(); err != nil {
		fail("flush", err)
	}
	v.dialogue()
}
