#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

#include "dsl/emit/expression.hpp"
#include "dsl/emit/literal.hpp"

// A word put together from bytes or nibbles of others. __byte_perm (one PRMT) takes four bytes from two words.

namespace tessera::emit {

namespace {

struct Choice {
    int source, byte;
};

/// The instruction; `choices[i].source` is 0 or 1.
Text byte_perm(const Text& a, const Text& b, const std::vector<Choice>& choices) {
    int selector = 0;
    for (int i = 0; i < 4; ++i) {
        const Choice c = i < static_cast<int>(choices.size()) ? choices[static_cast<std::size_t>(i)] : Choice{0, i};
        selector |= (4 * c.source + c.byte) << (4 * i);
    }
    return call("__byte_perm", a, b, Text{fmt::format("0x{:04x}", selector)});
}

/// From up to four words. Words are joined one at a time, bytes going straight to their place.
Text join(const std::vector<Text>& sources, const std::vector<Choice>& choices) {
    if (sources.size() == 1) return byte_perm(sources[0], {"0u"}, choices);
    Text joined = sources[0];
    for (int next = 1; next < static_cast<int>(sources.size()); ++next) {
        std::vector<Choice> step;
        for (int i = 0; i < static_cast<int>(choices.size()); ++i) {
            const Choice c = choices[static_cast<std::size_t>(i)];
            const bool in_place = next > 1 && c.source < next;
            step.push_back(c.source == next  ? Choice{1, c.byte}
                           : in_place        ? Choice{0, i}
                           : c.source < next ? Choice{0, c.byte}
                                             : Choice{0, i});
        }
        joined = byte_perm(joined, sources[static_cast<std::size_t>(next)], step);
    }
    return joined;
}

}  // namespace

/// By bytes where the nibbles stand in pairs, else by a shift and a mask for each word and distance.
Text Expressions::select_nibbles(std::span<const Bits> nibbles) {
    std::vector<Bits> bytes;
    for (std::size_t i = 0; i + 1 < nibbles.size(); i += 2) {
        const Bits &low = nibbles[i], &high = nibbles[i + 1];
        const bool known = low.constant && high.constant;
        const bool pair = !low.constant && !high.constant && low.word.text == high.word.text && low.bit % 8 == 0 &&
                          high.bit == low.bit + 4;
        if (known || pair) bytes.push_back({low.word, low.bit, known, low.value | high.value << 4});
    }
    if (2 * bytes.size() == nibbles.size()) return select_bytes(bytes);
    if (nibbles.size() == 1 && nibbles[0].bit == 0 && !nibbles[0].constant) return nibbles[0].word;

    struct Part {
        Text word;
        int left;
        std::uint32_t mask;
    };
    std::vector<Part> parts;
    std::uint32_t constant = 0;
    for (int i = 0; i < static_cast<int>(nibbles.size()); ++i) {
        const Bits& nibble = nibbles[static_cast<std::size_t>(i)];
        if (nibble.constant) {
            constant |= static_cast<std::uint32_t>(nibble.value) << (4 * i);
            continue;
        }
        const int left = 4 * i - nibble.bit;
        const auto same = [&](const Part& part) { return part.left == left && part.word.text == nibble.word.text; };
        const auto at = std::find_if(parts.begin(), parts.end(), same);
        Part& part = at == parts.end() ? parts.emplace_back(Part{nibble.word, left, 0}) : *at;
        part.mask |= 0xfu << (4 * i);
    }
    if (parts.empty()) return word_literal(constant);
    Text word;
    for (const Part& part : parts) {
        const Text distance{std::to_string(std::abs(part.left))};
        const Text moved =
            part.left == 0 ? part.word : infix(part.word, part.left > 0 ? "<<" : ">>", distance, Precedence::shift);
        const Text masked = infix(moved, "&", word_literal(part.mask), Precedence::bit_and);
        word = word.text.empty() ? masked : infix(word, "|", masked, Precedence::bit_or, true);
    }
    return constant == 0 ? word : infix(word, "|", word_literal(constant), Precedence::bit_or);
}

Text Expressions::select_bytes(std::span<const Bits> bytes) {
    std::vector<Text> sources;
    std::vector<Choice> choices;
    std::uint32_t constant = 0;
    int constant_source = -1;
    bool in_place = true;
    for (int i = 0; i < static_cast<int>(bytes.size()); ++i) {
        const Bits& byte = bytes[static_cast<std::size_t>(i)];
        int source = 0;
        if (byte.constant) {
            if (constant_source < 0) constant_source = static_cast<int>(sources.size()), sources.emplace_back();
            source = constant_source;
            constant |= static_cast<std::uint32_t>(byte.value) << (8 * i);
        } else {
            while (source < static_cast<int>(sources.size()) &&
                   (source == constant_source || sources[static_cast<std::size_t>(source)].text != byte.word.text))
                ++source;
            if (source == static_cast<int>(sources.size())) sources.push_back(byte.word);
        }
        choices.push_back({source, byte.constant ? i : byte.bit / 8});
        in_place = in_place && choices.back().byte == i;
    }
    if (constant_source >= 0) sources[static_cast<std::size_t>(constant_source)] = word_literal(constant);
    if (sources.size() == 1 && in_place) return sources[0];
    return join(sources, choices);
}

}  // namespace tessera::emit
