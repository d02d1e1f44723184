#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "dsl/emit/c_types.hpp"
#include "dsl/emit/statement.hpp"

// e5m6: eight elements share 12 bytes. One, two or four groups of eight are moved as three accesses of 4, 8 or 16 bytes
// each, and become words of two codes.

namespace tessera::emit {

namespace {

constexpr int group = 8, words_of_group = 3;

int groups_of(const ir::Access& access) {
    const int groups = access.lanes / group;
    require_internal(access.lanes % group == 0 && (groups == 1 || groups == 2 || groups == 4),
                     "an access to e5m6 moves 8, 16 or 32 elements");
    return groups;
}

std::string item(const char* array, int index) { return fmt::format("{}[{}]", array, index); }

/// "words[0], words[1], words[2]"
std::string memory_words(int group_index) {
    std::string out;
    for (int i = 0; i < words_of_group; ++i)
        out += (i == 0 ? "" : ", ") + item(Names::words, words_of_group * group_index + i);
    return out;
}

}  // namespace

/// The accesses, between memory and `words`.
void Statements::print_thirds(const ir::Access& access, bool load) {
    const int bytes = 4 * groups_of(access);
    const MemoryHelper helper = helper_for(access, load, bytes, "unsigned");
    writer_.line(
        fmt::format("{}unsigned char* const {} = {};", load ? "const " : "", Names::bytes, address(access).text));
    for (int third = 0; third < words_of_group; ++third) {
        std::vector<Text> words;
        for (int i = 0; i < helper.words(); ++i) words.push_back({item(Names::words, third * helper.words() + i)});
        const std::string at = third == 0 ? "" : fmt::format(" + {}", third * bytes);
        writer_.line(access_call(access, helper, {Names::bytes + at}, words, {"0u"}));
    }
}

void Statements::load_groups(const ir::LoadVector& load) {
    const int groups = groups_of(load.access), pack = array(load.array).pack;
    require_internal(pack <= 2, "a register holds two e5m6 elements at most");
    writer_.open("");
    writer_.line(fmt::format("unsigned {}[{}];", Names::words, words_of_group * groups));
    print_thirds(load.access, true);
    if (pack == 1) writer_.line(fmt::format("unsigned {}[{}];", Names::codes, load.access.lanes / 2));
    const auto target = [&](int pair) {
        return pack == 2 ? array_word(load.array, load.index, pair) : item(Names::codes, pair);
    };
    for (int g = 0; g < groups; ++g)
        writer_.line(fmt::format("{}({}, {}, {}, {}, {});", helpers_.use("split_e5m6x8"), target(4 * g),
                                 target(4 * g + 1), target(4 * g + 2), target(4 * g + 3), memory_words(g)));
    for (int i = 0; pack == 1 && i < load.access.lanes; ++i)
        writer_.line(fmt::format("{} = {}{};", array_word(load.array, load.index, i), target(i / 2),
                                 i % 2 == 0 ? "" : " >> 16"));
    fill_groups(load);
    writer_.close();
}

/// Memory's words of a fill other than 0 differ, so it is put into the registers instead.
void Statements::fill_groups(const ir::LoadVector& load) {
    if (load.access.predicate == nullptr) return;
    const auto* constant = load.fill->as<ir::Constant>();
    if (constant != nullptr && constant->bits == 0) return;
    const int pack = array(load.array).pack;
    const std::vector<Piece> pieces(static_cast<std::size_t>(pack), Piece{load.fill, 0});
    const Text fill = expressions_.pack(e5m6, pieces), in = expressions_.scalar(load.access.predicate);
    for (int i = 0; i < load.access.lanes / pack; ++i) {
        const std::string word = array_word(load.array, load.index, i);
        writer_.line(word + " = " + conditional(in, {word}, fill).text + ";");
    }
}

void Statements::store_groups(const ir::StoreVector& store) {
    const int groups = groups_of(store.access);
    const std::vector<Text> codes = store_words(store, e5m6);
    require_internal(static_cast<int>(codes.size()) == 4 * groups, "an access with the wrong number of words");
    writer_.open("");
    writer_.line(fmt::format("unsigned {}[{}];", Names::words, words_of_group * groups));
    for (int g = 0; g < groups; ++g) {
        std::string pairs;
        for (std::size_t i = 0; i < 4; ++i) pairs += ", " + codes[static_cast<std::size_t>(4 * g) + i].text;
        writer_.line(fmt::format("{}({}{});", helpers_.use("join_e5m6x8"), memory_words(g), pairs));
    }
    print_thirds(store.access, false);
    writer_.close();
}

}  // namespace tessera::emit
