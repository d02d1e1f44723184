#include "dsl/lower/barriers.hpp"

#include <set>
#include <utility>

#include "dsl/ir/each_warp.hpp"
#include "dsl/ir/roles.hpp"
#include "dsl/ir/walk.hpp"

namespace tessera::lower {

namespace {

/// A tensor by its index, or shared tiles by their place.
using Memory = std::pair<ir::Space, std::int64_t>;
using Memories = std::set<Memory>;

/// What was touched since the last barrier.
struct Touched {
    Memories read, written, added;
    void add(const Touched& other) {
        read.insert(other.read.begin(), other.read.end());
        written.insert(other.written.begin(), other.written.end());
        added.insert(other.added.begin(), other.added.end());
    }
    bool meets(const Memories& a, const Memories& b) const {
        for (const Memory& m : a)
            if (b.count(m)) return true;
        return false;
    }
    /// Whether accesses after must wait for these. Atomic additions need not wait for each other.
    bool orders(const Touched& after) const {
        return meets(after.read, written) || meets(after.read, added) || meets(after.written, written) ||
               meets(after.written, read) || meets(after.written, added) || meets(after.added, written) ||
               meets(after.added, read);
    }
};

class Pass {
public:
    Pass(const ir::Program& program, const Plan& plan) : program_(program), plan_(plan) {
        ir::for_each_statement(program.body, [&](const ir::Statement& s) {
            if (const auto* copy = s.as<ir::CopyVector>(); copy && copy->mbarriers < 0)
                insert(copied_, copy->to), insert(copied_from_, copy->from);
        });
    }

    void run(ir::Body& body) {
        std::size_t before = 0;
        do {
            before = kept_.size();
            Touched t;
            walk(body, t);
        } while (kept_.size() != before);
        drop(body);
    }

private:
    void insert(Memories& into, const ir::Access& a) const { insert(into, a.space, a.memory); }
    void insert_tile(Memories& into, int tile) const {
        if (tile >= 0) insert(into, ir::Space::shared, tile);
    }
    void insert(Memories& into, ir::Space space, int memory) const {
        if (!plan_.needs_order(space, memory, alone_)) return;
        const auto i = static_cast<std::size_t>(memory);
        into.insert({space, space == ir::Space::shared ? program_.shared[i].byte_offset : memory});
    }
    void insert_mbarriers(Memories& into, int tile) const {
        if (tile >= 0) into.insert({ir::Space::shared, program_.shared[static_cast<std::size_t>(tile)].byte_offset});
    }
    /// What a copy writes may be touched by nobody until a wait covers it, nor may what it reads be written to, so only
    /// what comes before it is to be ordered with it, `after` as seen from there. Mbarriers order what they count;
    /// their own start needs a barrier.
    void touch(const ir::Statement& s, Touched& t, bool after) const {
        if (const auto* load = s.as<ir::LoadVector>()) insert(t.read, load->access);
        if (const auto* store = s.as<ir::StoreVector>()) insert(t.written, store->access);
        if (const auto* sum = s.as<ir::AtomicAdd>()) insert(t.added, sum->access);
        if (const auto* copy = s.as<ir::CopyVector>()) {
            if (after) insert(t.written, copy->to), insert(t.read, copy->from);
            insert_mbarriers(t.read, copy->mbarriers);
        }
        if (const auto* box = s.as<ir::CopyBox>()) {
            if (after) insert(t.written, ir::Space::shared, box->tile), insert(t.read, ir::Space::global, box->tensor);
            insert_mbarriers(t.read, box->mbarriers);
        }
        if (const auto* wait = s.as<ir::WaitCopies>()) {
            insert_mbarriers(t.read, wait->mbarriers);
            // Only now what a thread has copied may be seen by the others, and what it copied from be written to.
            if (wait->mbarriers < 0) {
                t.written.insert(copied_.begin(), copied_.end());
                t.read.insert(copied_from_.begin(), copied_from_.end());
            }
        }
        if (const auto* product = s.as<ir::WarpgroupMma>())
            for (int tile : {product->a_tile, product->b_tile}) insert_tile(t.read, tile);
        if (const auto* commit = s.as<ir::CommitCopies>()) insert_mbarriers(t.read, commit->mbarriers);
        if (const auto* arrive = s.as<ir::Arrive>()) insert_mbarriers(t.read, arrive->mbarriers);
        if (const auto* init = s.as<ir::InitMbarriers>()) insert_mbarriers(t.written, init->mbarriers);
    }
    /// The body of other threads than the block's: of a role, or of each warp by itself.
    static const ir::For* team_of(const ir::Statement& s) {
        const ir::For* const role = ir::role_of(s);
        return role ? role : ir::each_warp_of(s);
    }
    void touch_all(const ir::For& team, Touched& t, bool after) const {
        ir::for_each_statement(team.body, [&](const ir::Statement& s) { touch(s, t, after); });
    }
    /// Adds what is touched from statement i on, up to the next barrier. True if one was met.
    bool touch_group(const ir::Body& body, std::size_t i, Touched& t) const {
        for (; i < body.size(); ++i) {
            if (body[i].as<ir::Barrier>() || body[i].as<ir::GridSync>()) return true;
            touch(body[i], t, true);
            if (const ir::For* team = team_of(body[i])) {  // its own barriers order nothing before it
                touch_all(*team, t, true);
                continue;
            }
            if (const auto* f = body[i].as<ir::For>())
                if (touch_group(f->body, 0, t)) return true;
        }
        return false;
    }
    void walk(const ir::Body& body, Touched& t) {
        for (std::size_t i = 0; i < body.size(); ++i) {
            const ir::Statement& s = body[i];
            if (s.as<ir::Barrier>()) {
                Touched group;
                touch_group(body, i + 1, group);
                if (t.orders(group)) kept_.insert(&s);
                if (kept_.count(&s)) t = {};
            }
            if (s.as<ir::GridSync>()) t = {};
            touch(s, t, false);
            if (const auto* f = s.as<ir::For>()) {
                const Touched entry = t;
                if (f->each_warp) {  // barriers inside order a warp's turns, and nothing with other warps
                    Touched turn;
                    alone_ = true;
                    walk(f->body, turn);
                    walk(f->body, turn);
                    alone_ = false;
                    touch_all(*f, t, false);
                    continue;
                }
                walk(f->body, t);
                if (f->role >= 0) {  // the next role runs beside it
                    t = entry;
                    continue;
                }
                t.add(entry);  // no iteration at all, or the next one after this
                walk(f->body, t);
                t.add(entry);
            }
        }
    }
    void drop(ir::Body& body) {
        ir::Body left;
        for (ir::Statement& s : body) {
            if (s.as<ir::Barrier>() && !kept_.count(&s)) continue;
            if (auto* f = s.as<ir::For>()) drop(f->body);
            left.push_back(std::move(s));
        }
        body = std::move(left);
    }
    const ir::Program& program_;
    const Plan& plan_;
    Memories copied_, copied_from_;  // by vectors
    std::set<const ir::Statement*> kept_;
    bool alone_ = false;  // what a warp does by itself is looked at
};

}  // namespace

void drop_needless_barriers(ir::Program& program, const Plan& plan) { Pass(program, plan).run(program.body); }

}  // namespace tessera::lower
