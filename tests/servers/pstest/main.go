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

	pb "cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/protobuf/proto"
)

// journal writes down each request that will succeed, a line each, before pstest carries it out. Not concurrent: pstest
// holds a lock meanwhile.
type journal struct {
	file   *os.File
	topics map[string]bool
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

func replay(server *pstest.GServer, content []byte) {
	for _, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n") {
		method, encoded, _ := strings.Cut(line, " ")
		request, err := base64.StdEncoding.DecodeString(encoded)
		check(err)
		switch method {
		case "CreateTopic":
			topic := &pb.Topic{}
			check(proto.Unmarshal(request, topic))
			_, err = server.CreateTopic(context.Background(), topic)
		case "DeleteTopic":
			topic := &pb.DeleteTopicRequest{}
			check(proto.Unmarshal(request, topic))
			_, err = server.DeleteTopic(context.Background(), topic)
		case "Publish":
			publish := &pb.PublishRequest{}
			check(proto.Unmarshal(request, publish))
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
	for _, method := range []string{"CreateTopic", "DeleteTopic", "Publish"} {
		options = append(options, pstest.ServerReactorOption{FuncName: method, Reactor: kept})
	}
	server := pstest.NewServerWithAddress(address, options...)
	replay(&server.GServer, content)
	kept.file, err = os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0o644)
	check(err)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
	check(server.Close())
}
