#include <array>

#include "runtime/safetensors.hpp"

namespace tessera {

namespace {

struct Row {
    StoredType type;
    const char* name;
    int bits;
    std::optional<Element> element;
};

constexpr std::array<Row, 22> table = {{
    {StoredType::BOOL, "BOOL", 8, Element::boolean},
    {StoredType::F4, "F4", 4, Element::e2m1},
    {StoredType::F6_E2M3, "F6_E2M3", 6, std::nullopt},
    {StoredType::F6_E3M2, "F6_E3M2", 6, std::nullopt},
    {StoredType::U8, "U8", 8, Element::u8},
    {StoredType::I8, "I8", 8, Element::i8},
    {StoredType::F8_E5M2, "F8_E5M2", 8, Element::e5m2},
    {StoredType::F8_E4M3, "F8_E4M3", 8, Element::e4m3},
    {StoredType::F8_E8M0, "F8_E8M0", 8, Element::ue8m0},
    {StoredType::F8_E4M3FNUZ, "F8_E4M3FNUZ", 8, std::nullopt},
    {StoredType::F8_E5M2FNUZ, "F8_E5M2FNUZ", 8, std::nullopt},
    {StoredType::I16, "I16", 16, Element::i16},
    {StoredType::U16, "U16", 16, Element::u16},
    {StoredType::F16, "F16", 16, Element::f16},
    {StoredType::BF16, "BF16", 16, Element::bf16},
    {StoredType::I32, "I32", 32, Element::i32},
    {StoredType::U32, "U32", 32, Element::u32},
    {StoredType::F32, "F32", 32, Element::f32},
    {StoredType::C64, "C64", 64, std::nullopt},
    {StoredType::F64, "F64", 64, Element::f64},
    {StoredType::I64, "I64", 64, Element::i64},
    {StoredType::U64, "U64", 64, Element::u64},
}};

const Row& row_of(StoredType type) { return table[static_cast<std::size_t>(type)]; }

}  // namespace

const char* name_of(StoredType type) { return row_of(type).name; }
int bits_of(StoredType type) { return row_of(type).bits; }
std::optional<Element> element_of(StoredType type) { return row_of(type).element; }

std::optional<StoredType> stored_type(std::string_view name) {
    for (const Row& row : table) {
        if (name == row.name) return row.type;
    }
    return std::nullopt;
}

StoredType stored_type_of(Element element) {
    if (element == Element::tf32) return StoredType::F32;
    if (element == Element::e5m6) return StoredType::U8;
    for (const Row& row : table) {
        if (row.element == element) return row.type;
    }
    return StoredType::U8;
}

}  // namespace tessera
