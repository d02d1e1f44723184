#include "runtime/cache/trust.hpp"

namespace tessera::runtime {

std::string distrust(const struct stat& status, Trust trust, const FileOps& ops) {
    const bool is_roots = trust == Trust::own_or_root && status.st_uid == 0;
    if (status.st_uid != ops.effective_user() && !is_roots)
        return "belongs to another user (id " + std::to_string(status.st_uid) + "), who could plant code in it";
    if (status.st_mode & (S_IWGRP | S_IWOTH))
        return "can be written by other users, who could plant code in it (chmod go-w helps)";
    return "";
}

}  // namespace tessera::runtime
