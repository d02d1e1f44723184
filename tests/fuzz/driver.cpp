// Runs a fuzz target where there is no libFuzzer:
//
//     fuzz_<name> [--seconds N] [--seed N] FOLDER|FILE...
//
// Every file is given to the target as it is; then, for N seconds, files changed in ways that break parsers. The input
// of a crash lies in ./crash-<name of the program>, and can be given again as a FILE.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

std::string crash_file;
const Bytes* running = nullptr;

void keep_running_input() {
    const int file = ::open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || !running) return;
    if (::write(file, running->data(), running->size()) < 0) return;
    ::close(file);
}

void on_crash(int number) {
    keep_running_input();
    std::signal(number, SIG_DFL);
    std::raise(number);
}

void run(const Bytes& input) {
    running = &input;
    // A copy of exactly that size, so that a sanitizer sees a read past the end.
    const Bytes exact(input.begin(), input.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
    running = nullptr;
}

Bytes read(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

class Mutator {
public:
    explicit Mutator(std::uint64_t seed) : random_(seed) {}

    Bytes mutated(const std::vector<Bytes>& seeds) {
        Bytes bytes = seeds.empty() ? Bytes() : seeds[below(seeds.size())];
        for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(bytes, seeds);
        if (bytes.size() > most) bytes.resize(most);
        return bytes;
    }

private:
    static constexpr std::size_t most = 65536;

    std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

    void change(Bytes& bytes, const std::vector<Bytes>& seeds) {
        // Half of the changes go to the first bytes, where headers are.
        const std::size_t reach = below(2) ? std::min<std::size_t>(bytes.size(), 64) : bytes.size();
        const std::size_t at = below(reach);
        switch (below(7)) {
            case 0:
                if (!bytes.empty()) bytes[at] ^= static_cast<std::uint8_t>(1u << below(8));
                break;
            case 1: put_number(bytes, at); break;
            case 2: bytes.resize(below(bytes.size() + 1)); break;
            case 3:
                bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), below(40),
                             static_cast<std::uint8_t>(random_()));
                break;
            case 4:
                bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                            bytes.begin() + static_cast<std::ptrdiff_t>(at + below(bytes.size() - at + 1)));
                break;
            case 5: copy_piece(bytes, at, bytes); break;
            default:
                if (!seeds.empty()) copy_piece(bytes, at, seeds[below(seeds.size())]);
        }
    }

    /// A size that is wrong in an interesting way.
    void put_number(Bytes& bytes, std::size_t at) {
        const std::array<std::uint64_t, 12> numbers = {0,
                                                       1,
                                                       0x7f,
                                                       0xff,
                                                       0xffff,
                                                       0x7fffffff,
                                                       0x80000000,
                                                       0xffffffff,
                                                       0x7fffffffffffffff,
                                                       0xffffffffffffffff,
                                                       bytes.size(),
                                                       bytes.size() - at};
        const std::uint64_t number = numbers[below(numbers.size())] + (below(3) == 0 ? random_() % 5 - 2 : 0);
        const std::size_t width = std::size_t{1} << below(4);
        const std::size_t room = std::min(width, bytes.size() - at);
        if (room > 0) std::memcpy(bytes.data() + at, &number, room);  // no bytes have no address
    }

    void copy_piece(Bytes& bytes, std::size_t at, const Bytes& other) {
        const std::size_t from = below(other.size());
        const std::size_t length = std::min(below(64), std::min(other.size() - from, bytes.size() - at));
        const Bytes piece(other.begin() + static_cast<std::ptrdiff_t>(from),
                          other.begin() + static_cast<std::ptrdiff_t>(from + length));
        std::copy(piece.begin(), piece.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    }

    std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
    long seconds = 0;
    std::uint64_t seed = 1;
    std::vector<Bytes> seeds;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--seconds" && i + 1 < argc) {
            seconds = std::atol(argv[++i]);
        } else if (word == "--seed" && i + 1 < argc) {
            seed = std::strtoull(argv[++i], nullptr, 10);
        } else if (std::filesystem::is_directory(word)) {
            for (const auto& item : std::filesystem::directory_iterator(word)) seeds.push_back(read(item.path()));
        } else if (std::filesystem::exists(word)) {
            seeds.push_back(read(word));
        } else {
            std::fprintf(stderr, "there is no %s\n", word.c_str());
            return 2;
        }
    }
    crash_file = "crash-" + std::filesystem::path(argv[0]).filename().string();
    for (const int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) std::signal(number, on_crash);
    for (const Bytes& input : seeds) run(input);
    std::sort(seeds.begin(), seeds.end());  // a folder's order differs from machine to machine

    Mutator mutator(seed);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    long long runs = 0;
    for (; std::chrono::steady_clock::now() < end; ++runs) run(mutator.mutated(seeds));
    std::printf("%zu seeds, %lld changed inputs, no finding\n", seeds.size(), runs);
    return seeds.empty() ? 1 : 0;
}
