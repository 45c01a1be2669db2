// A fake of Pub/Sub: pstest behind a port. It keeps what was published in a file, and has it again when it starts.
//
// Usage: pstest-server HOST:PORT FILE
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// journal writes down each request that will succeed, a line each, before pstest carries it out. Not concurrent: pstest
// holds a lock meanwhile.
//
// pstest listens before it has anything: until then only what is replayed is let through.
type journal struct {
	file     *os.File
	topics   map[string]bool
	lock     sync.Mutex
	replayed interface{}
	ready    bool
}

func (j *journal) state(change func()) bool {
	j.lock.Lock()
	defer j.lock.Unlock()
	change()
	return j.ready
}

func (j *journal) write(method string, request proto.Message) error {
	if j.file == nil {
		return nil
	}
	encoded, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(j.file, "%s %s\n", method, base64.StdEncoding.EncodeToString(encoded))
	return err
}

func (j *journal) React(request interface{}) (bool, interface{}, error) {
	var mine bool
	if !j.state(func() { mine = request == j.replayed }) && !mine {
		return true, nil, status.Error(codes.Unavailable, "it is starting")
	}
	switch r := request.(type) {
	case *pb.Topic:
		if !j.topics[r.Name] {
			j.topics[r.Name] = true
			return false, nil, j.write("CreateTopic", r)
		}
	case *pb.DeleteTopicRequest:
		if j.topics[r.Topic] {
			delete(j.topics, r.Topic)
			return false, nil, j.write("DeleteTopic", r)
		}
	case *pb.PublishRequest:
		if j.topics[r.Topic] {
			return false, nil, j.write("Publish", r)
		}
	}
	return false, nil, nil
}

func replay(server *pstest.GServer, content []byte, through func(interface{})) {
	for _, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
		method, encoded, _ := strings.Cut(line, " ")
		request, err := base64.StdEncoding.DecodeString(encoded)
		check(err)
		switch method {
		case "CreateTopic":
			topic := &pb.Topic{}
			check(proto.Unmarshal(request, topic))
			through(topic)
			_, err = server.CreateTopic(context.Background(), topic)
		case "DeleteTopic":
			topic := &pb.DeleteTopicRequest{}
			check(proto.Unmarshal(request, topic))
			through(topic)
			_, err = server.DeleteTopic(context.Background(), topic)
		case "Publish":
			publish := &pb.PublishRequest{}
			check(proto.Unmarshal(request, publish))
			through(publish)
			_, err = server.Publish(context.Background(), publish)
		}
		check(err)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	address, name := os.Args[1], os.Args[2]
	content, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		panic(err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1] // the last line may be half of one that nobody was told of
	check(os.WriteFile(name, content, 0o644))
	kept := &journal{topics: map[string]bool{}}
	options := []pstest.ServerReactorOption{}
	for _, method := range []string{"CreateTopic", "DeleteTopic", "GetTopic", "Publish"} {
		options = append(options, pstest.ServerReactorOption{FuncName: method, Reactor: kept})
	}
	server := pstest.NewServerWithAddress(address, options...)
	replay(&server.GServer, content, func(request interface{}) { kept.state(func() { kept.replayed = request }) })
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0o644)
	check(err)
	kept.state(func() { kept.file, kept.ready = file, true })
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
	check(server.Close())
}
