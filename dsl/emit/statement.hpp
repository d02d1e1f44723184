#pragma once

#include "dsl/base/target.hpp"
#include "dsl/emit/expression.hpp"
#include "dsl/emit/writer.hpp"

namespace tessera::emit {

/// Prints statements of a lowered program.
class Statements {
public:
    Statements(const ir::Program& program, const Target& target, const Names& names, HelperSet& helpers,
               Expressions& expressions, Writer& writer)
        : program_(program),
          target_(target),
          names_(names),
          helpers_(helpers),
          expressions_(expressions),
          writer_(writer) {}

    void print(const ir::Body& body);

private:
    void print(const ir::For& loop);
    void print_role(const ir::For& body);
    void print(const ir::Comment& comment);
    void print(const ir::Declare& declare);
    void print(const ir::Let& let);
    void print(const ir::Set& set);
    void print(const ir::Barrier&);
    void print(const ir::LoadVector& load);
    void print(const ir::StoreVector& store);
    void print(const ir::AtomicAdd& add);
    void print(const ir::MmaTile& product);
    void print(const ir::GridSync&);
    void print(const ir::KernelAheadWait&);
    void print(const ir::ReportElement& report);
    template <class Recorded>
    void print(const Recorded&);

    // copy.cpp
    void print(const ir::CopyVector& copy);
    void print(const ir::CopyBox& copy);
    void print(const ir::WaitCopies& wait);
    void print(const ir::CommitCopies& commit);
    void print(const ir::InitMbarriers& init);
    void print(const ir::Arrive& arrive);
    void print_bulk(const ir::CopyVector& copy);
    std::string mbarrier(int tile, ir::Ref stage);

    // product.cpp
    void print(const ir::WarpgroupMma& product);
    void print(const ir::MmaFence& fence);
    void print(const ir::MmaWait& wait);
    void print(const ir::ProxyFence&);
    Text matrix(int tile, ir::Ref offset);

    // group_access.cpp
    void load_groups(const ir::LoadVector& load);
    void store_groups(const ir::StoreVector& store);
    void fill_groups(const ir::LoadVector& load);
    void print_thirds(const ir::Access& access, bool load);

    void load_apart(const ir::LoadVector& load, const MemoryHelper& helper);
    std::vector<Text> store_words(const ir::StoreVector& store, Element type);
    std::string access_call(const ir::Access& access, const MemoryHelper& helper, const Text& address,
                            const std::vector<Text>& words, const Text& fill);
    MemoryHelper helper_for(const ir::Access& access, bool load, int bytes, const char* word);
    Text halved(const ir::Ref& offset);
    Text address(const ir::Access& access);
    Element element_of(const ir::Access& access) const;
    const ir::RegisterArray& array(int id) const;
    std::string array_word(int id, ir::Ref index, int offset);

    const ir::Program& program_;
    const Target& target_;
    const Names& names_;
    HelperSet& helpers_;
    Expressions& expressions_;
    Writer& writer_;
    const ir::WarpRole* role_ = nullptr;  // whose body is printed
    bool each_warp_ = false;              // what each warp runs by itself is printed
};

}  // namespace tessera::emit
