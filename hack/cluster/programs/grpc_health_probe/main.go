// Command grpc_health_probe asks a gRPC server for its health and exits 0 when it is serving.
//
// OLM 0.42 runs a program of this name inside every catalog pod. This one answers the flags OLM
// gives it and nothing more, so that a catalog image made on a bare machine needs no download.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Exit codes of the upstream program, which people may know from a pod's events.
const (
	exitUsage      = 1
	exitConnection = 2
	exitRPC        = 3
	exitUnhealthy  = 4
)

func main() {
	addr := flag.String("addr", "", "HOST:PORT of the server")
	service := flag.String("service", "", "service to ask for; empty asks for the server itself")
	connectTimeout := flag.Duration("connect-timeout", time.Second, "how long the connection may take")
	rpcTimeout := flag.Duration("rpc-timeout", time.Second, "how long the answer may take")
	flag.Parse()
	if *addr == "" {
		fail(exitUsage, "-addr is required, for example -addr=:50051")
	}

	conn, err := grpc.NewClient(*addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fail(exitConnection, "cannot use address %q: %v", *addr, err)
	}
	defer conn.Close()

	// The client connects lazily, so one deadline covers the connection and the answer.
	ctx, cancel := context.WithTimeout(context.Background(), *connectTimeout+*rpcTimeout)
	defer cancel()
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: *service})
	if err != nil {
		fail(exitRPC, "health of %s: %v", *addr, err)
	}
	if answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		fail(exitUnhealthy, "%s is %s", *addr, answer.GetStatus())
	}
	fmt.Println("status: SERVING")
}

func fail(code int, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "grpc_health_probe: "+format+"\n", args...)
	os.Exit(code)
}
