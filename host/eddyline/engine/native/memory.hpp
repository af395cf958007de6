// Arrays that begin at a cache line, lie in huge pages where they are large, and are not cleared.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace eddyline {

template <class T> struct Memory {
    using value_type = T;
    static constexpr size_t LINE = 64, HUGE_PAGE = size_t(1) << 21;
    Memory() = default;
    template <class U> Memory(const Memory<U>&) {}

    static std::align_val_t alignment(size_t n) {
        return std::align_val_t(n * sizeof(T) < HUGE_PAGE ? LINE : HUGE_PAGE);
    }
    T* allocate(size_t n) {
        void* at = ::operator new(n * sizeof(T), alignment(n));
        // Without huge pages, most of a random access is the translation of its address.
        if (n * sizeof(T) >= HUGE_PAGE) madvise(at, n * sizeof(T), MADV_HUGEPAGE);
        return static_cast<T*>(at);
    }
    void deallocate(T* at, size_t n) { ::operator delete(at, alignment(n)); }
    // What is not given a value is left as it is.
    template <class U> void construct(U* at) { ::new (static_cast<void*>(at)) U; }
    template <class U, class... Values> void construct(U* at, Values&&... values) {
        ::new (static_cast<void*>(at)) U(static_cast<Values&&>(values)...);
    }
    bool operator==(const Memory&) const { return true; }
};

template <class T> using Array = std::vector<T, Memory<T>>;

// The same for arrays of which little may ever be used, here and there: in small pages, anywhere.
template <class T> struct Sparse : std::allocator<T> {
    template <class U> struct rebind { using other = Sparse<U>; };
    template <class U> void construct(U* at) { ::new (static_cast<void*>(at)) U; }
};
template <class T> using SparseArray = std::vector<T, Sparse<T>>;

}  // namespace eddyline
