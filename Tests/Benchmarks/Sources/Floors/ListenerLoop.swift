import Sockets
import Synchronization

/// Work for a notice thread from other threads: new connections and changed zones.
final class ListenerGroup: Sendable {
    let poller: Poller
    let wake: Wake
    private let inbox = Mutex(Inbox())

    struct Inbox: Sendable {
        var descriptors: [Int32] = []
        var zones: [Int] = []
    }

    /// The key of the wake descriptor; a socket's key is its descriptor.
    static let wakeKey = -1

    init() throws {
        poller = try Poller()
        wake = try Wake()
        try poller.add(wake.descriptor, key: Self.wakeKey)
    }

    func take(_ descriptor: Int32) {
        inbox.withLock { $0.descriptors.append(descriptor) }
        wake.signal()
    }

    func changed(_ zones: [Int]) {
        inbox.withLock { $0.zones.append(contentsOf: zones) }
        wake.signal()
    }

    func empty() -> Inbox {
        inbox.withLock { inbox in
            defer { inbox = Inbox() }
            return inbox
        }
    }
}

/// A notice thread that holds a share of the listening sockets and writes to those whose zones have changed.
final class ListenerLoop {
    private let group: ListenerGroup
    private var sockets: [Int: Socket] = [:]
    /// By zone, then by descriptor: with a linear search among ten thousand, this server would still remove its
    /// connections while the other side is measured.
    private var zones: [Int: [Int: Socket]] = [:]
    private var zoneOf: [Int: Int] = [:]
    private var greeted: Set<Int> = []
    private var buffer = ReceiveBuffer()
    private let notice: [UInt8]

    /// Frames with the form and length of the relay's, encoded once.
    private static let accepted = Array(
        """
        HTTP/1.1 101 Switching Protocols\r
        Upgrade: websocket\r
        Connection: Upgrade\r
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r
        \r\n
        """.utf8
    )
    private static let ready = WebSocketFrame.fromServer(.text, Array(#"{"ready":{"pingInterval":30}}"#.utf8))

    init(_ group: ListenerGroup) {
        self.group = group
        let ck = #""ce":2,"cid":"iCloud.zonecast.benchmarks","nid":"00000000-0000-0000-0000-000000000000""#
        let met = #""met":{"dbs":2,"sid":"all","zid":"zone-0001","zoid":"_00000000000000000000000000000000"}"#
        let token = String(repeating: "A", count: 36)
        let text = #"{"notice":{"aps":{"content-available":1},"ck":{\#(ck),\#(met)},"syncToken":"\#(token)"}}"#
        notice = WebSocketFrame.fromServer(.text, Array(text.utf8))
    }

    func run() throws {
        while true {
            try group.poller.wait(milliseconds: -1) { key in
                if key == ListenerGroup.wakeKey {
                    try handleInbox()
                } else {
                    try read(from: key)
                }
            }
        }
    }

    private func handleInbox() throws {
        group.wake.clear()
        let inbox = group.empty()
        for descriptor in inbox.descriptors {
            sockets[Int(descriptor)] = Socket(descriptor: descriptor)
            try group.poller.add(descriptor, key: Int(descriptor))
        }
        for zone in inbox.zones {
            for socket in (zones[zone] ?? [:]).values { try socket.write(notice) }
        }
    }

    private func read(from key: Int) throws {
        guard let socket = sockets[key] else { return }
        buffer.use(buffer.unread.count)
        switch buffer.fill(from: socket) {
        case .nothingYet: return
        case .closed: forget(key)
        case .bytes: try answer(socket, key)
        }
    }

    private func answer(_ socket: Socket, _ key: Int) throws {
        if let zone = HTTPHead.number(after: "/listen/", in: buffer.unread) {
            zones[zone, default: [:]][key] = socket
            zoneOf[key] = zone
            try socket.write(Self.accepted)
        } else if greeted.insert(key).inserted {
            try socket.write(Self.ready)
        }
    }

    private func forget(_ key: Int) {
        guard let socket = sockets.removeValue(forKey: key) else { return }
        greeted.remove(key)
        group.poller.remove(socket.descriptor)
        if let zone = zoneOf.removeValue(forKey: key) { zones[zone]?[key] = nil }
    }
}
