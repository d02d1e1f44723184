#include <fmt/format.h>

#include "dsl/emit/expression.hpp"
#include "dsl/emit/literal.hpp"

// A word put together from bytes of others. __byte_perm (one PRMT) takes four bytes from two words.

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
        choices.push_back({source, byte.constant ? i : byte.byte});
        in_place = in_place && choices.back().byte == i;
    }
    if (constant_source >= 0) sources[static_cast<std::size_t>(constant_source)] = word_literal(constant);
    if (sources.size() == 1 && in_place) return sources[0];
    return join(sources, choices);
}

}  // namespace tessera::emit
