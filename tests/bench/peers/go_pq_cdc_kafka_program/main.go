// Relays an outbox to Kafka with go-pq-cdc-kafka; the argument is a file of settings.
package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	cdc "github.com/Trendyol/go-pq-cdc-kafka"
	"github.com/Trendyol/go-pq-cdc-kafka/config"
	cdcconfig "github.com/Trendyol/go-pq-cdc/config"
	"github.com/Trendyol/go-pq-cdc/pq/publication"
	"github.com/Trendyol/go-pq-cdc/pq/slot"
	"github.com/segmentio/kafka-go"
)

type settings struct {
	Host, User, Password, Database string
	Port, MetricPort               int
	Publication, Slot              string
	Brokers                        []string
	Topic                          string
	Tuned                          bool
}

func main() {
	given := read(os.Args[1])
	connector, err := cdc.NewConnector(context.Background(), connectorOf(given), handler(given.Tuned))
	if err != nil {
		slog.Error("new connector", "error", err)
		os.Exit(1)
	}
	defer connector.Close()
	connector.Start(context.Background())
}

func read(file string) settings {
	var given settings
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &given)
	}
	if err != nil {
		slog.Error("settings", "error", err)
		os.Exit(2)
	}
	return given
}

// As in its README: messages wait up to 200 ms for a batch to fill, and acks is 1 by default. Tuned: at most 5 ms and
// acks=all; idempotence cannot be set.
func connectorOf(given settings) config.Connector {
	brokers := config.Kafka{
		TableTopicMapping:           map[string]string{"public.outbox": given.Topic},
		Brokers:                     given.Brokers,
		ProducerBatchTickerDuration: 200 * time.Millisecond,
	}
	level := slog.LevelInfo
	if given.Tuned {
		brokers.ProducerBatchTickerDuration = 5 * time.Millisecond
		brokers.RequiredAcks = int(kafka.RequireAll)
		brokers.Compression = int8(kafka.Lz4)
		level = slog.LevelWarn
	}
	return config.Connector{
		CDC: cdcconfig.Config{
			Host:        given.Host,
			Port:        given.Port,
			Username:    given.User,
			Password:    given.Password,
			Database:    given.Database,
			Publication: publication.Config{Name: given.Publication},
			Slot:        slot.Config{Name: given.Slot, SlotActivityCheckerInterval: 3000},
			Metric:      cdcconfig.MetricConfig{Port: given.MetricPort},
			Logger:      cdcconfig.LoggerConfig{LogLevel: level},
		},
		Kafka: brokers,
	}
}

// The README's handler sends the whole row and logs each event; its key is the row's id, which would lose the order of
// an aggregate's events. Tuned: the payload alone, as walrelay sends it.
func handler(tuned bool) cdc.Handler {
	return func(msg *cdc.Message) []kafka.Message {
		if !msg.Type.IsInsert() {
			return nil
		}
		var sent any = msg.NewData
		if tuned {
			sent = msg.NewData["payload"]
		} else {
			slog.Info("change captured", "message", msg)
		}
		value, err := json.Marshal(sent)
		if err != nil {
			slog.Error("marshal", "error", err)
			os.Exit(1)
		}
		key, _ := msg.NewData["aggregate_id"].(string)
		return []kafka.Message{{Key: []byte(key), Value: value}}
	}
}
