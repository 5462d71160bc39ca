// gRPC: unary calls of bytes, without a description of the service; its threads poll sockets that others of its threads make.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "loops.h"

struct Reactor : grpc::ServerGenericBidiReactor {
    grpc::ByteBuffer bytes;

    Reactor()
    {
        StartRead(&bytes);
    }

    void OnReadDone(bool good) override
    {
        if (good)
            StartWriteAndFinish(&bytes, {}, grpc::Status::OK);
        else
            Finish(grpc::Status::CANCELLED);
    }

    void OnDone() override
    {
        delete this;
    }
};

struct Service : grpc::CallbackGenericService {
    grpc::ServerGenericBidiReactor *CreateReactor(grpc::GenericCallbackServerContext *) override
    {
        return new Reactor;
    }
};

struct Flow {
    std::unique_ptr<grpc::GenericStub> stub;
    std::unique_ptr<grpc::ClientContext> context;
    grpc::ByteBuffer question, answer;
    std::atomic<unsigned> round{0};
    unsigned number;

    Flow(const std::string &to, unsigned number) : number(number)
    {
        // A connection of its own.
        grpc::ChannelArguments arguments;
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        stub = std::make_unique<grpc::GenericStub>(
            grpc::CreateCustomChannel(to, grpc::InsecureChannelCredentials(), arguments));
    }

    void ask()
    {
        char message[SIZE];
        fill(message, number, round);
        grpc::Slice slice(message, SIZE);
        question = grpc::ByteBuffer(&slice, 1);
        answer.Clear();
        context = std::make_unique<grpc::ClientContext>();
        context->set_wait_for_ready(true);
        stub->UnaryCall(context.get(), "/echo/echo", grpc::StubOptions(), &question, &answer,
                        [this](grpc::Status status) { answered(status); });
    }

    void answered(const grpc::Status &status)
    {
        grpc::Slice whole;
        CHECK(status.ok() && answer.DumpToSingleSlice(&whole).ok() && whole.size() == SIZE);
        CHECK(is_answer(reinterpret_cast<const char *>(whole.begin()), number, round));
        round++;
        ask();
    }
};

int main(int count, char **words)
{
    CHECK(count >= 4);
    std::string name = std::string(words[2]) + ":" + words[3];
    if (!strcmp(words[1], "server")) {
        Service service;
        grpc::ServerBuilder builder;
        builder.AddListeningPort(name, grpc::InsecureServerCredentials());
        builder.RegisterCallbackGenericService(&service);
        auto server = builder.BuildAndStart();
        CHECK(server);
        server->Wait();
        return 0;
    }
    unsigned seconds = static_cast<unsigned>(atoi(words[4])), rounds[FLOWS];
    std::vector<std::unique_ptr<Flow>> flows;
    for (unsigned number = 0; number < FLOWS; number++) {
        flows.push_back(std::make_unique<Flow>(name, number));
        flows.back()->ask();
    }
    auto is_late = [&] {
        bool late = false;
        for (auto &flow : flows)
            late |= flow->round == 0;
        return late;
    };
    for (unsigned second = 0; second < seconds || (is_late() && second < seconds + PATIENCE); second++)
        sleep(1);
    for (unsigned number = 0; number < FLOWS; number++)
        rounds[number] = flows[number]->round;
    int result = report(rounds, FLOWS, seconds);
    fflush(stdout);
    _exit(result);
}
