#include <algorithm>
#include <set>

#include "dsl/ir/diagnosis.hpp"
#include "dsl/ir/effects.hpp"
#include "dsl/ir/tensor_core.hpp"
#include "dsl/ir/walk.hpp"

// Instructions of four warps read and write registers while other statements run: these must leave them alone until the
// wait, and what came before must be fenced.

namespace tessera::ir::detail {

namespace {

class Products {
public:
    explicit Products(const Program& program) : at_{program} {}

    void run() {
        body(at_.program.body);
        at_.statement = nullptr;
        require(sums_.empty(), "mma-wait", "products are under way when the program ends");
    }

private:
    void body(const Body& statements) {
        for (const Statement& s : statements) {
            at_.statement = &s;
            if (const auto* loop = s.as<For>()) {
                turns(loop->body);
            } else if (const auto* fence = s.as<MmaFence>()) {
                fenced_.insert(fence->arrays.begin(), fence->arrays.end());
            } else if (const auto* product = s.as<WarpgroupMma>()) {
                start(*product);
            } else if (const auto* wait = s.as<MmaWait>()) {
                for (const std::set<int>* used : {&sums_, &operands_})
                    for (int array : *used)
                        require(std::find(wait->arrays.begin(), wait->arrays.end(), array) != wait->arrays.end(),
                                "mma-wait", "a wait does not name a register array that products under way use");
                sums_.clear(), operands_.clear();
            } else {
                other(s);
            }
        }
    }

    /// None, or any number: the second turn comes after the first.
    void turns(const Body& statements) {
        const std::set<int> fenced = fenced_;
        body(statements);
        body(statements);
        std::set<int> both;
        std::set_intersection(fenced.begin(), fenced.end(), fenced_.begin(), fenced_.end(),
                              std::inserter(both, both.end()));
        fenced_ = both;
    }

    void start(const WarpgroupMma& product) {
        sums_.insert(product.array);
        for (Ref word : product.a) operands_.insert(word->as<Register>()->array);
        for (const std::set<int>* used : {&sums_, &operands_})
            for (int array : *used)
                require(fenced_.count(array) > 0, "mma-fence",
                        "a product starts without a fence after a write to a register array that it uses");
    }

    void other(const Statement& s) {
        const Effects written = writes_of(s);
        for (int array : written.arrays) {
            require(sums_.count(array) == 0 && operands_.count(array) == 0, "mma-frozen",
                    "registers that a product under way uses are written to");
            fenced_.erase(array);
        }
        if (sums_.empty()) return;
        for (int array : reads_of(s).arrays)
            require(sums_.count(array) == 0, "mma-frozen", "the sums of a product under way are read");
    }

    void require(bool holds, const char* rule, const char* why) const { at_.require(holds, rule, nullptr, why); }

    Diagnosis at_;
    std::set<int> fenced_;           // arrays not written to since their fence
    std::set<int> sums_, operands_;  // of products under way
};

/// An operand that lies in shared memory; its type.
Element verify_matrix(const Diagnosis& at, int tile, Ref offset) {
    at.require(tile >= 0 && static_cast<std::size_t>(tile) < at.program.shared.size(), "index-range", nullptr,
               "the program has no such memory");
    const SharedTile& t = at.program.shared[static_cast<std::size_t>(tile)];
    at.require(fits_tensor_cores(t), "in-place", nullptr, "tensor cores cannot read rows or a swizzle like these");
    at.require(t.byte_offset < 0 || t.byte_offset % (8 * row_bytes(t)) == 0, "align", nullptr,
               "a tile that tensor cores read begins at a multiple of 8 rows' bytes");
    at.require(offset != nullptr, "operand-missing", nullptr, "an offset is missing");
    at.require(offset->type == i32 && offset->scalar(), "offset-type", offset,
               "an offset is i32 in shared memory, of rank 0");
    return t.type;
}

}  // namespace

void verify_product(const Diagnosis& at, const WarpgroupMma& p) {
    const auto require = [&](bool holds, const char* rule, const char* why) { at.require(holds, rule, nullptr, why); };
    require(p.columns >= mma_columns && p.columns % mma_columns == 0 && p.columns <= most_warpgroup_columns, "mma",
            "an instruction of four warps has 8 to 256 columns, in multiples of 8");
    require(p.array >= 0 && static_cast<std::size_t>(p.array) < at.program.arrays.size(), "index-range",
            "the program has no such register array");
    const RegisterArray& array = at.program.arrays[static_cast<std::size_t>(p.array)];
    require(array.type == f32 && array.pack == 1, "operand-type", "a product is added to f32");
    require(at.program.threads % warpgroup_threads == 0 || !at.program.roles.empty(), "mma",
            "a block has a multiple of four warps");
    const Element type = verify_matrix(at, p.b_tile, p.b_offset);
    require(p.a.empty() == (p.a_tile >= 0) && (p.a.empty() || p.a.size() == 4), "mma",
            "a has four words in registers or lies in a shared tile");
    require(!p.a.empty() || verify_matrix(at, p.a_tile, p.a_offset) == type, "operand-type",
            "the operands have one type");
    for (Ref word : p.a) {
        at.require(word->type == type && word->lanes() * bits_of(type) == 32, "operand-type", word,
                   "the operands of a product are words of one type, of 32 bits");
        at.require(word->as<Register>() != nullptr, "mma", word, "what a product under way reads are registers");
    }
}

void verify_products(const Program& program) {
    bool any = false;
    for_each_statement(program.body,
                       [&](const Statement& s) { any = any || s.as<WarpgroupMma>() || s.as<MmaFence>(); });
    if (any) Products(program).run();
}

}  // namespace tessera::ir::detail
