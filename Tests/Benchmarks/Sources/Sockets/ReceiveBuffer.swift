/// Bytes that came in and were not used yet: filled at the end, used up from the front, in one growing allocation.
package struct ReceiveBuffer: ~Copyable {
    private var storage: UnsafeMutableRawBufferPointer
    private var start = 0
    private var end = 0

    package init(capacity: Int = 1 << 16) {
        storage = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { storage.deallocate() }

    /// What waits to be used; valid until the buffer is changed.
    package var unread: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: storage[start..<end])
    }

    package mutating func use(_ count: Int) {
        start += count
        if start == end { (start, end) = (0, 0) }
    }

    /// Makes one read from the socket, into at least as much room as the allocation has left or 64 KiB.
    package mutating func fill(from socket: Socket) -> Socket.Reading {
        if storage.count - end < 1 << 16 { makeRoom() }
        let reading = socket.read(into: UnsafeMutableRawBufferPointer(rebasing: storage[end...]))
        if case .bytes(let count) = reading { end += count }
        return reading
    }

    /// Appends bytes that came earlier.
    package mutating func put(_ bytes: [UInt8]) {
        while storage.count - end < bytes.count { makeRoom() }
        UnsafeMutableRawBufferPointer(rebasing: storage[end...]).copyBytes(from: bytes)
        end += bytes.count
    }

    private mutating func makeRoom() {
        let waiting = end - start
        let larger = UnsafeMutableRawBufferPointer.allocate(
            byteCount: max(storage.count, 2 * (waiting + (1 << 16))),
            alignment: 16
        )
        larger.copyMemory(from: unread)
        storage.deallocate()
        storage = larger
        (start, end) = (0, waiting)
    }
}
