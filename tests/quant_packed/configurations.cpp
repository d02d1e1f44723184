#include "tests/quant_packed/configurations.hpp"

#include <fmt/core.h>

namespace tessera::test {
namespace {

using quant::ScaleLayout;
using List = std::vector<Configuration>;

struct Scales {
    const char* name;
    ScaleLayout layout;
    bool round;
};
constexpr Scales all_scales[] = {{"row", ScaleLayout::row_major, false},
                                 {"row rounded", ScaleLayout::row_major, true},
                                 {"column", ScaleLayout::column_major, false},
                                 {"packed", ScaleLayout::packed_ue8m0, true}};
constexpr bool both[] = {true, false};
constexpr Element plain[] = {bf16, f32};
constexpr Element formats[] = {e4m3, e2m1};
constexpr std::int64_t hidden = 7168, odd_hidden = 584, long_hidden = 16384;

const char* width(bool aligned) { return aligned ? "aligned" : "narrow"; }

void add_token(List& list, Element in, std::int64_t columns, const quant::CastOptions& o, const Scales& s,
               bool aligned) {
    list.push_back(
        {fmt::format("per_token_cast {} to {}{} hidden {} group {} {} {}", name_of(in), name_of(o.format),
                     o.round_subnormals ? " nearest" : "", columns, o.num_per_channels, s.name, width(aligned)),
         [=] { return quant::per_token_cast_program(in, columns, o, aligned); }});
}

void token_casts(List& list) {
    int turn = 0;
    for (const Element in : plain)
        for (const Scales& s : all_scales)
            for (const bool aligned : both) {
                for (const Element format : formats) {
                    for (const std::int64_t n : {16, 32, 64, 128}) {
                        const std::int64_t columns = ++turn % 2 == 0 ? hidden : odd_hidden;
                        add_token(list, in, columns, {format, n, s.layout, s.round}, s, aligned);
                    }
                    for (const std::int64_t columns : {hidden, odd_hidden, long_hidden})
                        add_token(list, in, columns, {format, columns, s.layout, s.round}, s, aligned);
                }
                for (const std::int64_t columns : {hidden, odd_hidden, long_hidden})
                    for (const bool nearest : {false, true})
                        add_token(list, in, columns, {e5m6, columns, s.layout, s.round, nearest}, s, aligned);
            }
}

void block_casts(List& list) {
    for (const Element in : plain)
        for (const Element format : formats)
            for (const std::int64_t rows : {32, 128})
                for (const std::int64_t columns : {32, 128})
                    for (const Scales& s : all_scales)
                        for (const bool aligned : both)
                            list.push_back({fmt::format("per_block_cast {} to {} {}x{} {} {}", name_of(in),
                                                        name_of(format), rows, columns, s.name, width(aligned)),
                                            [=] {
                                                return quant::per_block_cast_program(
                                                    in, hidden, {format, rows, columns, s.layout, s.round}, aligned);
                                            }});
}

/// Layouts and blocks of given scales.
std::vector<quant::QuantizedLayout> given_scales() {
    std::vector<quant::QuantizedLayout> all;
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{1, 128}, {32, 32}, {128, 128}, {1, hidden}, {128, 1}, {3, 48}})
        for (const auto layout : {ScaleLayout::row_major, ScaleLayout::column_major, ScaleLayout::packed_ue8m0})
            all.push_back({layout, rows, columns});
    return all;
}

std::string text_of(const quant::QuantizedLayout& from) {
    const char* layout = from.scale_layout == ScaleLayout::row_major      ? "row"
                         : from.scale_layout == ScaleLayout::column_major ? "column"
                                                                          : "packed";
    return fmt::format("{}x{} {}", from.block_rows, from.block_columns, layout);
}

/// All combinations of everything would be thousands: the given scales take turns.
void requantizations(List& list) {
    const auto given = given_scales();
    std::size_t turn = 0;
    for (const Element in : formats)
        for (const Element out : formats)
            for (const std::int64_t n :
                 {std::int64_t{16}, std::int64_t{32}, std::int64_t{64}, std::int64_t{128}, hidden})
                for (const Scales& s : all_scales)
                    for (const bool aligned : both) {
                        const quant::QuantizedLayout from = given[turn++ % given.size()];
                        list.push_back({fmt::format("per_token_cast {} {} to {} group {} {} {}", name_of(in),
                                                    text_of(from), name_of(out), n, s.name, width(aligned)),
                                        [=] {
                                            return quant::per_token_cast_program(in, from, hidden,
                                                                                 {out, n, s.layout, s.round}, aligned);
                                        }});
                    }
}

void casts_back(List& list) {
    for (const Element in : {e4m3, e2m1, e5m6})
        for (const Element out : plain)
            for (const quant::QuantizedLayout& from : given_scales())
                for (const bool aligned : both)
                    list.push_back({fmt::format("cast_back {} {} to {} {}", name_of(in), text_of(from), name_of(out),
                                                width(aligned)),
                                    [=] { return quant::cast_back_program(in, hidden, from, out, aligned); }});
}

void variants(List& list) {
    for (const Element in : plain)
        for (const Element format : formats)
            for (const std::int64_t n : {std::int64_t{32}, std::int64_t{128}, hidden})
                for (const bool aligned : both) {
                    for (const Scales& s : all_scales)
                        list.push_back({fmt::format("per_token_cast_with_sf_only {} {} group {} {} {}", name_of(in),
                                                    name_of(format), n, s.name, width(aligned)),
                                        [=] {
                                            return quant::per_token_cast_with_sf_only_program(
                                                in, hidden, {format, n, s.layout, s.round}, aligned);
                                        }});
                    list.push_back({fmt::format("per_token_cast_with_precomputed_sf {} to {} group {} {}", name_of(in),
                                                name_of(format), n, width(aligned)),
                                    [=] {
                                        return quant::per_token_cast_with_precomputed_sf_program(in, hidden, n, format,
                                                                                                 aligned);
                                    }});
                }
}

void block_variants(List& list) {
    for (const Element in : plain)
        for (const Element format : formats)
            for (const std::int64_t rows : {32, 128})
                for (const bool aligned : both) {
                    const std::int64_t columns = 160 - rows;
                    for (const Scales& s : all_scales)
                        list.push_back({fmt::format("per_block_cast_with_sf_only {} {} {}x{} {} {}", name_of(in),
                                                    name_of(format), rows, columns, s.name, width(aligned)),
                                        [=] {
                                            return quant::per_block_cast_with_sf_only_program(
                                                in, hidden, {format, rows, columns, s.layout, s.round}, aligned);
                                        }});
                    list.push_back({fmt::format("per_block_cast_with_precomputed_sf {} to {} {}x{} {}", name_of(in),
                                                name_of(format), rows, columns, width(aligned)),
                                    [=] {
                                        return quant::per_block_cast_with_precomputed_sf_program(
                                            in, hidden, rows, columns, format, aligned);
                                    }});
                }
}

}  // namespace

std::vector<Configuration> quant_configurations() {
    List list;
    token_casts(list);
    block_casts(list);
    requantizations(list);
    casts_back(list);
    variants(list);
    block_variants(list);
    return list;
}

}  // namespace tessera::test
