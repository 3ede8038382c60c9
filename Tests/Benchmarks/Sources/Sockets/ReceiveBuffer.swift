/// Received, unused bytes: appended at the end and consumed from the front, in one growing allocation.
package struct ReceiveBuffer: ~Copyable {
    private var storage: UnsafeMutableRawBufferPointer
    private var start = 0
    private var end = 0

    package init(capacity: Int = 1 << 16) {
        storage = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { storage.deallocate() }

    /// The unused bytes, valid until the buffer changes.
    package var unread: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: storage[start..<end])
    }

    package mutating func use(_ count: Int) {
        start += count
        if start == end { (start, end) = (0, 0) }
    }

    /// Reads once from the socket, into the free space of the allocation or at least 64 KiB.
    package mutating func fill(from socket: Socket) -> Socket.Reading {
        if storage.count - end < 1 << 16 { makeRoom() }
        let reading = socket.read(into: UnsafeMutableRawBufferPointer(rebasing: storage[end...]))
        if case .bytes(let count) = reading { end += count }
        return reading
    }

    /// Appends bytes received earlier.
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
