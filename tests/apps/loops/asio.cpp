// Asio: two loops, one with a thread of its own and one with three; sockets are opened by the main thread.
#include <asio.hpp>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

extern "C" {
#include "loops.h"
}

using asio::ip::tcp;
using asio::ip::udp;

struct Loops {
    asio::io_context one, many;
    asio::executor_work_guard<asio::io_context::executor_type> one_stays{one.get_executor()}, many_stays{many.get_executor()};
    std::vector<std::thread> threads;

    Loops()
    {
        for (auto *context : {&one, &many, &many, &many})
            threads.emplace_back([context] { context->run(); });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }

    auto strand(unsigned flow)
    {
        return asio::make_strand(flow % 2 ? one : many);
    }

    void stop()
    {
        one.stop();
        many.stop();
        for (auto &thread : threads)
            thread.join();
    }
};

using Strand = asio::strand<asio::io_context::executor_type>;

struct Echo : std::enable_shared_from_this<Echo> {
    tcp::socket socket;
    char bytes[4096];

    explicit Echo(tcp::socket accepted) : socket(std::move(accepted)) {}

    void read()
    {
        socket.async_read_some(asio::buffer(bytes), [self = shared_from_this()](auto error, size_t size) {
            if (error)
                return;
            asio::async_write(self->socket, asio::buffer(self->bytes, size), [self](auto error, size_t) {
                if (!error)
                    self->read();
            });
        });
    }
};

struct Server {
    Loops loops;
    tcp::acceptor acceptor;
    udp::socket datagrams;
    udp::endpoint from;
    char bytes[4096];
    unsigned accepted = 0;

    Server(const asio::ip::address &address, unsigned short port)
        : acceptor(loops.one, tcp::endpoint(address, port)), datagrams(loops.many, udp::endpoint(address, port))
    {
        accept();
        receive();
    }

    void accept()
    {
        acceptor.async_accept(loops.strand(accepted++), [this](auto error, auto socket) {
            if (!error)
                std::make_shared<Echo>(std::move(socket))->read();
            accept();
        });
    }

    void receive()
    {
        datagrams.async_receive_from(asio::buffer(bytes), from, [this](auto error, size_t size) {
            if (!error)
                datagrams.send_to(asio::buffer(bytes, size), from, 0, error);
            receive();
        });
    }
};

struct Stream {
    tcp::socket socket;
    unsigned flow;
    std::atomic<unsigned> round{0};
    char message[SIZE], answer[SIZE];

    Stream(Loops &loops, unsigned flow) : socket(loops.strand(flow)), flow(flow) {}

    void begin(const tcp::endpoint &to)
    {
        socket.async_connect(to, [this](auto error) {
            CHECK(!error);
            ask();
        });
    }

    void ask()
    {
        fill(message, flow, round);
        asio::async_write(socket, asio::buffer(message), [this](auto error, size_t) {
            CHECK(!error);
            asio::async_read(socket, asio::buffer(answer), [this](auto error, size_t) {
                CHECK(!error && is_answer(answer, flow, round));
                round++;
                ask();
            });
        });
    }
};

// Receives before it has a port, or is connected; what is lost is sent again.
struct Datagrams {
    udp::socket socket;
    udp::endpoint to, from;
    asio::steady_timer again;
    unsigned flow;
    std::atomic<unsigned> round{0};
    char message[SIZE], answer[SIZE];

    Datagrams(Loops &loops, unsigned flow) : Datagrams(loops.strand(flow), flow) {}
    Datagrams(Strand strand, unsigned flow) : socket(strand), again(strand), flow(flow) {}

    void begin(const udp::endpoint &peer)
    {
        to = peer;
        socket.open(udp::v4());
        receive();
        if (flow % 2)
            socket.connect(to);
        asio::post(socket.get_executor(), [this] { ask(); });
    }

    void ask()
    {
        fill(message, flow, round);
        asio::error_code error;
        if (flow % 2)
            socket.send(asio::buffer(message), 0, error);
        else
            socket.send_to(asio::buffer(message), to, 0, error);
        CHECK(!error);
        again.expires_after(std::chrono::seconds(1));
        again.async_wait([this](auto error) {
            if (!error)
                ask();
        });
    }

    void receive()
    {
        socket.async_receive_from(asio::buffer(answer), from, [this](auto error, size_t size) {
            CHECK(!error && size == SIZE);
            if (is_answer(answer, flow, round)) {
                round++;
                ask();
            }
            receive();
        });
    }
};

int main(int count, char **words)
{
    CHECK(count >= 4);
    auto address = asio::ip::make_address(words[2]);
    auto port = static_cast<unsigned short>(atoi(words[3]));
    if (!strcmp(words[1], "server")) {
        Server server(address, port);
        pause();
        return 0;
    }
    unsigned seconds = static_cast<unsigned>(atoi(words[4])), rounds[2 * FLOWS];
    Loops loops;
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<std::unique_ptr<Datagrams>> datagrams;
    for (unsigned flow = 0; flow < FLOWS; flow++) {
        streams.push_back(std::make_unique<Stream>(loops, flow));
        streams.back()->begin({address, port});
        datagrams.push_back(std::make_unique<Datagrams>(loops, flow));
        datagrams.back()->begin({address, port});
    }
    auto is_late = [&] {
        bool late = false;
        for (unsigned flow = 0; flow < FLOWS; flow++)
            late |= streams[flow]->round == 0 || datagrams[flow]->round == 0;
        return late;
    };
    for (unsigned second = 0; second < seconds || (is_late() && second < seconds + PATIENCE); second++)
        sleep(1);
    loops.stop();
    for (unsigned flow = 0; flow < FLOWS; flow++) {
        rounds[flow] = streams[flow]->round;
        rounds[FLOWS + flow] = datagrams[flow]->round;
    }
    return report(rounds, 2 * FLOWS, seconds);
}
