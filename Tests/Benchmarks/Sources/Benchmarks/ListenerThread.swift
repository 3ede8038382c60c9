import Sockets
import Synchronization

/// Connects a share of the listeners and receives for all of them, with one epoll set and one read buffer.
final class ListenerThread {
    private enum Stage {
        case upgrading
        case greeting
        case listening
    }

    private struct Member {
        var listener: Int
        var socket: Socket
        var stage = Stage.upgrading
        /// The beginning of an incomplete frame, usually empty.
        var rest: [UInt8] = []
    }

    /// The maximum number of connections being established.
    private static let window = 100
    private static let wakeKey = -1

    private let share: ListenerShare
    private let server: NoticeServer
    private let poller: Poller
    private var members: [Member] = []
    private var connecting = 0
    private var buffer = ReceiveBuffer()
    private var arrivals: [Arrival] = []

    init(_ share: ListenerShare, _ server: NoticeServer) throws {
        self.share = share
        self.server = server
        poller = try Poller()
        try poller.add(share.wake.descriptor, key: Self.wakeKey)
    }

    func run() throws {
        do {
            while !share.isEnding.load(ordering: .relaxed) {
                while connecting < Self.window, members.count < share.listeners.count { try connect() }
                try poller.wait(milliseconds: -1) { key in
                    if key != Self.wakeKey { try read(key) }
                }
                guard !arrivals.isEmpty else { continue }
                share.add(arrivals)
                arrivals.removeAll(keepingCapacity: true)
            }
        } catch {
            share.fail(error)
            throw error
        }
    }

    private func connect() throws {
        let listener = share.listeners[members.count]
        // Use several loopback addresses: a few rounds of 10,000 connections use up the ports of one.
        let source = UInt8(2 + members.count % 100)
        let socket = try Socket.connect(to: server.listeners, source: source, blocks: false)
        try socket.write(server.upgrade(listener))
        try poller.add(socket.descriptor, key: members.count)
        members.append(Member(listener: listener, socket: socket))
        connecting += 1
    }

    private func read(_ key: Int) throws {
        buffer.use(buffer.unread.count)
        if !members[key].rest.isEmpty {
            buffer.put(members[key].rest)
            members[key].rest = []
        }
        switch buffer.fill(from: members[key].socket) {
        case .nothingYet: return
        case .closed: throw LoadError.peer("The server closed listener \(members[key].listener)'s socket.")
        case .bytes: break
        }
        if members[key].stage == .upgrading, try !upgraded(key) {
            members[key].rest = Array(buffer.unread)
            return
        }
        try readFrames(key)
    }

    /// Whether the whole response to the upgrade has arrived; it must be a 101.
    private func upgraded(_ key: Int) throws -> Bool {
        guard let length = HTTPHead.length(in: buffer.unread) else { return false }
        guard HTTPHead.status(of: buffer.unread) == 101 else {
            throw LoadError.peer("No upgrade: \(String(decoding: buffer.unread.prefix(300), as: UTF8.self))")
        }
        buffer.use(length)
        members[key].stage = .greeting
        try members[key].socket.write(server.hello(members[key].listener))
        return true
    }

    private func readFrames(_ key: Int) throws {
        while let frame = WebSocketFrame.first(in: buffer.unread) {
            switch frame.kind {
            case .text: try receive(frame.payload, key)
            case .ping: try members[key].socket.write(WebSocketFrame.fromClient(.pong, Array(frame.payload)))
            case .close: throw LoadError.peer("The server said close to listener \(members[key].listener).")
            default: break
            }
            buffer.use(frame.length)
        }
        if !buffer.unread.isEmpty { members[key].rest = Array(buffer.unread) }
    }

    private func receive(_ text: UnsafeRawBufferPointer, _ key: Int) throws {
        if members[key].stage == .greeting {
            guard text.starts(with: #"{"ready""#.utf8) else {
                throw LoadError.peer("Not a ready: \(String(decoding: text.prefix(300), as: UTF8.self))")
            }
            members[key].stage = .listening
            connecting -= 1
            share.ready.add(1, ordering: .releasing)
        } else if text.starts(with: #"{"notice""#.utf8) {
            arrivals.append(Arrival(listener: members[key].listener, time: Monotonic.nanoseconds))
        }
    }
}
