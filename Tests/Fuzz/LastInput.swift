import Foundation
import RelayStore

/// Stores the current input in a file, so that it is still available if it crashes the process.
///
/// The file is memory-mapped: a write costs one copy of the input, and the system keeps the content after a crash.
/// Layout: length of the input (8 bytes, -1 if there is none), then the input.
final class LastInput: @unchecked Sendable {
    // Unchecked: only one run uses it at a time.
    private static let size = 64 * 1024
    private let memory: UnsafeMutableRawPointer
    /// Holds the lock.
    private let descriptor: Int32

    /// Returns `nil` if the file cannot be created or if another process uses it.
    init?(path: String) {
        let descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0, let status = FileStatus(descriptor: descriptor) else {
            close(descriptor)
            return nil
        }
        let isNew = status.size == 0
        guard ftruncate(descriptor, off_t(Self.size)) == 0,
            let memory = mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), memory != MAP_FAILED
        else {
            close(descriptor)
            return nil
        }
        self.memory = memory
        self.descriptor = descriptor
        if isNew { end() }
    }

    deinit {
        munmap(memory, Self.size)
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// The input that was running when the previous process ended.
    var unfinished: [UInt8]? {
        let count = memory.load(as: Int64.self)
        guard count >= 0, count <= Self.size - 8 else { return nil }
        return Array(UnsafeRawBufferPointer(start: memory + 8, count: Int(count)))
    }

    func begin(_ input: [UInt8]) {
        let count = min(input.count, Self.size - 8)
        input.withUnsafeBytes { bytes in
            if let start = bytes.baseAddress { (memory + 8).copyMemory(from: start, byteCount: count) }
        }
        memory.storeBytes(of: Int64(count), as: Int64.self)
    }

    func end() { memory.storeBytes(of: -1, as: Int64.self) }
}
