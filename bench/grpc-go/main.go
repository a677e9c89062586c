// SPDX-License-Identifier: Apache-2.0
// The plugin as an old grpc-go sees it: Debian's 1.33 sends the path of the socket as :authority, as kubelets before 1.26
// do, dials as kubelet does, and marshals by reflection (kubelet's generated code is faster, so a kubelet sees less than
// this). One call after the other on one connection.
//
// With -serve it is the other side instead: a grpc-go server that answers every Allocate with one constant, the least that a
// plugin written with this grpc-go could cost. So there is something to compare with in the same run.
//
// Usage:
//
//	grpc-go [-calls N] [-wanted N] [-expect N] SOCKET
//	grpc-go [-calls N] -baseline SOCKET
//	grpc-go -serve SOCKET        (until the end of input)
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"sort"
	"time"

	"github.com/golang/protobuf/proto"
	"google.golang.org/grpc"
)

// The messages of proto/deviceplugin.proto, as far as they are needed here.

type empty struct{}

type options struct {
	PreStart  bool `protobuf:"varint,1,opt,name=pre_start_required,proto3"`
	Preferred bool `protobuf:"varint,2,opt,name=get_preferred_allocation_available,proto3"`
}

type device struct {
	ID     string `protobuf:"bytes,1,opt,name=ID,proto3"`
	Health string `protobuf:"bytes,2,opt,name=health,proto3"`
}

type deviceList struct {
	Devices []*device `protobuf:"bytes,1,rep,name=devices,proto3"`
}

type containerIDs struct {
	IDs []string `protobuf:"bytes,1,rep,name=devices_ids,proto3"`
}

type allocateRequest struct {
	Containers []*containerIDs `protobuf:"bytes,1,rep,name=container_requests,proto3"`
}

type mount struct {
	ContainerPath string `protobuf:"bytes,1,opt,name=container_path,proto3"`
	HostPath      string `protobuf:"bytes,2,opt,name=host_path,proto3"`
}

type containerAllocation struct {
	Envs   map[string]string `protobuf:"bytes,1,rep,name=envs,proto3" protobuf_key:"bytes,1,opt,name=key,proto3" protobuf_val:"bytes,2,opt,name=value,proto3"`
	Mounts []*mount          `protobuf:"bytes,2,rep,name=mounts,proto3"`
}

type allocateResponse struct {
	Containers []*containerAllocation `protobuf:"bytes,1,rep,name=container_responses,proto3"`
}

type containerPreference struct {
	Available []string `protobuf:"bytes,1,rep,name=available_deviceIDs,proto3"`
	Required  []string `protobuf:"bytes,2,rep,name=must_include_deviceIDs,proto3"`
	Size      int32    `protobuf:"varint,3,opt,name=allocation_size,proto3"`
}

type preferRequest struct {
	Containers []*containerPreference `protobuf:"bytes,1,rep,name=container_requests,proto3"`
}

type preferResponse struct {
	Containers []*containerIDs `protobuf:"bytes,1,rep,name=container_responses,proto3"`
}

func (m *empty) Reset()                       { *m = empty{} }
func (m *empty) String() string               { return proto.CompactTextString(m) }
func (m *empty) ProtoMessage()                {}
func (m *options) Reset()                     { *m = options{} }
func (m *options) String() string             { return proto.CompactTextString(m) }
func (m *options) ProtoMessage()              {}
func (m *device) Reset()                      { *m = device{} }
func (m *device) String() string              { return proto.CompactTextString(m) }
func (m *device) ProtoMessage()               {}
func (m *deviceList) Reset()                  { *m = deviceList{} }
func (m *deviceList) String() string          { return proto.CompactTextString(m) }
func (m *deviceList) ProtoMessage()           {}
func (m *containerIDs) Reset()                { *m = containerIDs{} }
func (m *containerIDs) String() string        { return proto.CompactTextString(m) }
func (m *containerIDs) ProtoMessage()         {}
func (m *allocateRequest) Reset()             { *m = allocateRequest{} }
func (m *allocateRequest) String() string     { return proto.CompactTextString(m) }
func (m *allocateRequest) ProtoMessage()      {}
func (m *mount) Reset()                       { *m = mount{} }
func (m *mount) String() string               { return proto.CompactTextString(m) }
func (m *mount) ProtoMessage()                {}
func (m *containerAllocation) Reset()         { *m = containerAllocation{} }
func (m *containerAllocation) String() string { return proto.CompactTextString(m) }
func (m *containerAllocation) ProtoMessage()  {}
func (m *allocateResponse) Reset()            { *m = allocateResponse{} }
func (m *allocateResponse) String() string    { return proto.CompactTextString(m) }
func (m *allocateResponse) ProtoMessage()     {}
func (m *containerPreference) Reset()         { *m = containerPreference{} }
func (m *containerPreference) String() string { return proto.CompactTextString(m) }
func (m *containerPreference) ProtoMessage()  {}
func (m *preferRequest) Reset()               { *m = preferRequest{} }
func (m *preferRequest) String() string       { return proto.CompactTextString(m) }
func (m *preferRequest) ProtoMessage()        {}
func (m *preferResponse) Reset()              { *m = preferResponse{} }
func (m *preferResponse) String() string      { return proto.CompactTextString(m) }
func (m *preferResponse) ProtoMessage()       {}

const service = "/v1beta1.DevicePlugin/"

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "grpc-go: %s: %v\n", what, err)
	os.Exit(1)
}

// The figure as bench/figure.h prints it.
func printFigure(name string, samples []float64) {
	n := len(samples)
	sort.Float64s(samples)
	fmt.Printf("%s\tus\t%.9g\t%.9g\t%.9g\t%.9g\t%d\n", name, samples[(n-1)/2], samples[(n-1)*99/100], samples[0],
		samples[n-1], n)
}

func dial(ctx context.Context, socket string) *grpc.ClientConn {
	conn, err := grpc.DialContext(ctx, socket, grpc.WithInsecure(), grpc.WithBlock(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", address)
		}))
	if err != nil {
		fail("dial "+socket, err)
	}
	return conn
}

// The first device list.
func list(ctx context.Context, conn *grpc.ClientConn) []string {
	var devices deviceList
	var ids []string

	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, service+"ListAndWatch")
	if err == nil {
		err = stream.SendMsg(&empty{})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(&devices)
	}
	if err != nil {
		fail("ListAndWatch", err)
	}
	for _, d := range devices.Devices {
		if d.Health != "Healthy" {
			fail("ListAndWatch", fmt.Errorf("device %s is %s", d.ID, d.Health))
		}
		ids = append(ids, d.ID)
	}
	return ids
}

// A plugin without a policy.
func serve(socket string) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		fail("listen on "+socket, err)
	}
	answer := &allocateResponse{Containers: []*containerAllocation{{
		Envs: map[string]string{
			"NVIDIA_VISIBLE_DEVICES":            "GPU-00000000-9c6b-4d21-a7f3-000000000000",
			"CUDA_MPS_PIPE_DIRECTORY":           "/mps/nvidia.com/gpu/pipe",
			"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "2",
			"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT":  "0=1699M",
		},
		Mounts: []*mount{
			{ContainerPath: "/mps/nvidia.com/gpu/pipe", HostPath: "/run/nvidia/mps/nvidia.com/gpu/pipe"},
			{ContainerPath: "/dev/shm", HostPath: "/run/nvidia/mps/shm"},
		},
	}}}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "v1beta1.DevicePlugin",
		HandlerType: (*interface{})(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Allocate", Handler: func(_ interface{}, _ context.Context,
			decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
			return answer, decode(&allocateRequest{})
		}}},
	}, struct{}{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	fmt.Println(socket)
	if err := server.Serve(listener); err != nil {
		fail("serve", err)
	}
}

func measureAllocate(ctx context.Context, conn *grpc.ClientConn, calls int, ids []string) []float64 {
	return measure(calls, func(i int) {
		var response allocateResponse
		request := allocateRequest{Containers: []*containerIDs{{IDs: ids[i%len(ids) : i%len(ids)+1]}}}
		err := conn.Invoke(ctx, service+"Allocate", &request, &response)
		if err != nil || len(response.Containers) != 1 || response.Containers[0].Envs["NVIDIA_VISIBLE_DEVICES"] == "" {
			fail("Allocate", fmt.Errorf("%v %v", response, err))
		}
	})
}

func measure(calls int, one func(i int)) []float64 {
	const warmUp = 200
	samples := make([]float64, 0, calls)
	for i := 0; i < warmUp+calls; i++ {
		started := time.Now()
		one(i)
		if i >= warmUp {
			samples = append(samples, float64(time.Since(started).Nanoseconds())/1000)
		}
	}
	return samples
}

func main() {
	calls := flag.Int("calls", 2000, "requests of each kind")
	wanted := flag.Int("wanted", 1, "devices a preference is asked for")
	expect := flag.Int("expect", 0, "devices that the list must have; 0: any number")
	asServer := flag.Bool("serve", false, "be a plugin that answers Allocate with a constant")
	baseline := flag.Bool("baseline", false, "the other side is such a plugin: measure its Allocate only")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if *asServer {
		serve(flag.Arg(0))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn := dial(ctx, flag.Arg(0))
	defer conn.Close()

	if *baseline {
		id := []string{"GPU-00000000-9c6b-4d21-a7f3-000000000000::0"}
		printFigure("grpc_go_baseline", measureAllocate(ctx, conn, *calls, id))
		return
	}
	var opts options
	if err := conn.Invoke(ctx, service+"GetDevicePluginOptions", &empty{}, &opts); err != nil || !opts.Preferred {
		fail("GetDevicePluginOptions", fmt.Errorf("%v %v", opts, err))
	}
	ids := list(ctx, conn)
	if *expect > 0 && len(ids) != *expect {
		fail("ListAndWatch", fmt.Errorf("%d devices, expected %d", len(ids), *expect))
	}
	fmt.Printf("grpc_go_devices\tdevices\t%d\t%d\t%d\t%d\t1\n", len(ids), len(ids), len(ids), len(ids))
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })

	printFigure("grpc_go_allocate", measureAllocate(ctx, conn, *calls, ids))
	printFigure("grpc_go_prefer", measure(*calls, func(int) {
		var response preferResponse
		request := preferRequest{Containers: []*containerPreference{{Available: ids, Size: int32(*wanted)}}}
		err := conn.Invoke(ctx, service+"GetPreferredAllocation", &request, &response)
		if err != nil || len(response.Containers) != 1 || len(response.Containers[0].IDs) != *wanted {
			fail("GetPreferredAllocation", fmt.Errorf("%v %v", response, err))
		}
	}))
}
