#include "tests/support/kernels/engram_check.hpp"

#include <cmath>
#include <cstring>
#include <exception>
#include <fmt/core.h>
#include <tessera/engram.hpp>

#include "tests/support/kernels/guarded.hpp"
#include "tests/support/random.hpp"
#include "tests/support/reference/formats.hpp"

namespace tessera::test {

namespace {

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
    std::vector<std::uint8_t> bytes(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}
template <class T>
std::vector<T> values_of(const std::vector<std::uint8_t>& bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

struct Hash {
    std::vector<std::int32_t> ids, sizes, offsets;
    std::vector<std::int64_t> multipliers;

    explicit Hash(const EngramHashCase& c) {
        Random random(c.seed + 2000);
        const std::int64_t lengths = c.columns - 1;
        const auto any32 = [&] { return static_cast<std::int32_t>(random.next()); };
        for (std::int64_t i = 0; i < c.tokens * c.columns; ++i)
            ids.push_back(c.wild ? any32() : static_cast<std::int32_t>(random.between(0, 99'999)));
        for (std::int64_t i = 0; i < c.layers * c.columns; ++i)
            multipliers.push_back(c.wild ? static_cast<std::int64_t>(random.next()) : random.between(0, 99'999));
        for (std::int64_t i = 0; i < c.layers * lengths * c.tables; ++i) {
            const std::int64_t size = c.wild ? random.log_uniform(1, INT32_MAX) : random.between(100'000, 999'999);
            sizes.push_back(static_cast<std::int32_t>(size));
            offsets.push_back(c.wild ? any32() : static_cast<std::int32_t>(random.between(0, 1'000'000)));
        }
    }

    /// By the book, with whole numbers of 128 bits.
    std::vector<std::int32_t> expected(const EngramHashCase& c) const {
        std::vector<std::int32_t> out;
        const std::int64_t lengths = c.columns - 1;
        for (std::int64_t l = 0; l < c.layers; ++l)
            for (std::int64_t t = 0; t < c.tokens; ++t) {
                std::uint64_t h = 0;
                for (std::int64_t n = 0; n < c.columns; ++n) {
                    const __int128 product = static_cast<__int128>(ids[static_cast<std::size_t>(t * c.columns + n)]) *
                                             multipliers[static_cast<std::size_t>(l * c.columns + n)];
                    h ^= static_cast<std::uint64_t>(static_cast<unsigned __int128>(product));
                    for (std::int64_t j = 0; n > 0 && j < c.tables; ++j) {
                        const auto column = static_cast<std::size_t>((l * lengths + n - 1) * c.tables + j);
                        const __int128 size = sizes[column], signed_h = static_cast<std::int64_t>(h);
                        const __int128 row = (signed_h % size + size) % size + offsets[column];
                        out.push_back(static_cast<std::int32_t>(static_cast<std::uint32_t>(
                            static_cast<std::uint64_t>(static_cast<unsigned __int128>(row)))));
                    }
                }
            }
        return out;
    }
};

std::string check_hash(const Device& device, const EngramHashCase& c) {
    const Hash in(c);
    const Stream stream = device.stream();
    const std::int64_t lengths = c.columns - 1, columns = lengths * c.tables;
    const Guarded ids(stream, bytes_of(in.ids)), multipliers(stream, bytes_of(in.multipliers));
    const Guarded sizes(stream, bytes_of(in.sizes)), offsets(stream, bytes_of(in.offsets));
    const Guarded out(stream, c.layers * c.tokens * columns * 4);
    const engram::HashInputs inputs{ids.view(i32, {c.tokens, c.columns}, {c.columns, 1}),
                                    multipliers.view(i64, {c.layers, c.columns}, {c.columns, 1}),
                                    sizes.view(i32, {c.layers, lengths, c.tables}, {columns, c.tables, 1}),
                                    offsets.view(i32, {c.layers, columns}, {columns, 1})};
    engram::hash(stream, inputs, out.view(i32, {c.layers, c.tokens, columns}, {c.tokens * columns, columns, 1}));
    stream.synchronize();
    const std::vector<std::int32_t> expected = in.expected(c), got = values_of<std::int32_t>(out.read(stream));
    for (std::size_t i = 0; i < got.size(); ++i)
        if (got[i] != expected[i]) return fmt::format("element {} is {}, the reference has {}", i, got[i], expected[i]);
    const Tensor again = engram::hash(stream, inputs).to_host(stream);
    const bool same = std::equal(expected.begin(), expected.end(), again.as<const std::int32_t>());
    return same ? "" : "what is returned differs";
}

std::vector<std::uint16_t> random_weights(Random& random, std::int64_t count) {
    std::vector<std::uint16_t> w;
    for (std::int64_t i = 0; i < count; ++i)
        w.push_back(reference::bf16_nearest(static_cast<float>(random.unit() * 4 - 2)));
    return w;
}

std::vector<float> random_floats(Random& random, std::int64_t count) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random.unit() * 4 - 2));
    return values;
}

/// old + W · weight within 2⁻²¹ of the magnitudes.
std::string judge_sum(const char* name, const std::vector<float>& got, const std::vector<float>& old,
                      const std::vector<float>& partial, const std::vector<std::uint16_t>& weight) {
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double w = reference::bf16_value(weight[i]);
        double exact = old[i], size = std::fabs(old[i]);
        for (std::size_t p = i; p < partial.size(); p += got.size())
            exact += partial[p] * w, size += std::fabs(partial[p] * w);
        if (!(std::fabs(got[i] - exact) <= 0x1p-21 * size))
            return fmt::format("{}[{}] is {}, the reference has {}", name, i, got[i], exact);
    }
    return "";
}

std::string check_reduce(const Device& device, const EngramReduceCase& c) {
    Random random(c.seed + 3000);
    const std::int64_t count = c.heads * c.hidden;
    const auto partial = random_floats(random, c.rows * count), hidden = random_floats(random, count),
               embed = random_floats(random, count);
    const auto by_hidden = random_weights(random, count), by_embed = random_weights(random, count);
    const Stream stream = device.stream();
    const Shape matrix{c.heads, c.hidden}, dense{c.hidden, 1};
    const Guarded p(stream, bytes_of(partial), 4 * c.shift), wh(stream, bytes_of(by_hidden), 2 * c.shift);
    const Guarded we(stream, bytes_of(by_embed));
    std::vector<float> first;
    for (int run = 0; run < 2; ++run) {
        const Guarded gh(stream, bytes_of(hidden), 4 * c.shift), ge(stream, bytes_of(embed));
        engram::grad_w_reduce(stream, p.view(f32, {c.rows, c.heads, c.hidden}, {count, c.hidden, 1}),
                              wh.view(bf16, matrix, dense), we.view(bf16, matrix, dense),
                              {gh.view(f32, matrix, dense), ge.view(f32, matrix, dense)});
        stream.synchronize();
        const auto got = values_of<float>(gh.read(stream));
        if (run == 1 && got != first) return "two runs differ";
        first = got;
        std::string wrong = judge_sum("hidden", got, hidden, partial, by_embed);
        if (wrong.empty()) wrong = judge_sum("embed", values_of<float>(ge.read(stream)), embed, partial, by_hidden);
        if (!wrong.empty()) return wrong;
    }
    return "";
}

std::string check_weight(const Device& device, const EngramReduceCase& c) {
    Random random(c.seed + 4000);
    const std::int64_t count = c.heads * c.hidden;
    const auto hidden = random_weights(random, count), embed = random_weights(random, count);
    const Stream stream = device.stream();
    const Shape matrix{c.heads, c.hidden}, dense{c.hidden, 1};
    const Guarded a(stream, bytes_of(hidden), 2 * c.shift), b(stream, bytes_of(embed));
    const Guarded out(stream, count * 4, 4 * c.shift);
    engram::fused_weight(stream, a.view(bf16, matrix, dense), b.view(bf16, matrix, dense),
                         out.view(f32, matrix, dense));
    stream.synchronize();
    const auto got = values_of<float>(out.read(stream));
    const Tensor again =
        engram::fused_weight(stream, a.view(bf16, matrix, dense), b.view(bf16, matrix, dense)).to_host(stream);
    for (std::size_t i = 0; i < got.size(); ++i) {
        const float expected = reference::bf16_value(hidden[i]) * reference::bf16_value(embed[i]);
        if (got[i] != expected || again.as<const float>()[i] != expected)
            return fmt::format("element {} is {}, the reference has {}", i, got[i], expected);
    }
    return "";
}

template <class Case>
std::string guarded(std::string (*check)(const Device&, const Case&), const Device& device, const Case& c) {
    try {
        const std::string wrong = check(device, c);
        return wrong.empty() ? "" : c.text() + ": " + wrong;
    } catch (const std::exception& error) {
        return c.text() + ": " + error.what();
    }
}

}  // namespace

std::string check_engram_hash(const Device& device, const EngramHashCase& c) { return guarded(check_hash, device, c); }
std::string check_engram_reduce(const Device& device, const EngramReduceCase& c) {
    return guarded(check_reduce, device, c);
}
std::string check_engram_weight(const Device& device, const EngramReduceCase& c) {
    return guarded(check_weight, device, c);
}

}  // namespace tessera::test
