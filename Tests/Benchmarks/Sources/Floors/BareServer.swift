import Foundation
import Sockets
import Synchronization

/// A server that does only what every server must do, as a floor for the relay.
///
/// Thread 0 handles HTTP requests. `POST /commit/ZONE` appends the body to a log file, fsyncs once for all waiting
/// requests, wakes the notice threads and answers; `POST /notify/ZONE` does the same without a disk. `POST /row/N`
/// commits the body as a row of SQLite, `POST /rows/N` each of its lines as a row in one commit, and
/// `POST /shared-row/N` the body together with the rows of all waiting requests. `GET /feed/AFTER/LIMIT` answers with
/// a page of rows. The other threads each hold a share of the listening sockets: a request `GET /listen/ZONE` is
/// answered like a WebSocket upgrade, the first bytes after it with a `ready` frame, and each commit of the zone with
/// one `write` per listener.
package final class BareServer {
    package struct Settings: Sendable {
        package var noticeThreads: Int
        package var logPath: String
        /// A `BareFeed` to serve, if any.
        package var feedPath: String?

        package init(noticeThreads: Int, logPath: String, feedPath: String?) {
            self.noticeThreads = noticeThreads
            self.logPath = logPath
            self.feedPath = feedPath
        }
    }

    /// Serves until the standard input ends; prints `ready REQUESTS-PORT LISTENERS-PORT` first.
    package static func serve(_ settings: Settings) throws {
        let requests = try Socket.listen()
        let listeners = try Socket.listen()
        let groups = try (0..<settings.noticeThreads).map { _ in try ListenerGroup() }
        let ports = "ready \(requests.endpoint.port) \(listeners.endpoint.port)\n"
        FileHandle.standardOutput.write(Data(ports.utf8))
        let (requesting, accepting) = (requests.descriptor, listeners.descriptor)
        _ = RunningThread { accept(from: accepting, into: groups) }
        for group in groups { _ = RunningThread { try ListenerLoop(group).run() } }
        _ = RunningThread { try RequestLoop(requesting, settings, groups).run() }
        _ = FileHandle.standardInput.readDataToEndOfFile()
        exit(0)
    }

    /// Distributes new connections to the groups in turn.
    private static func accept(from listening: Int32, into groups: [ListenerGroup]) {
        var next = 0
        while let descriptor = Socket.acceptDescriptor(from: listening) {
            groups[next % groups.count].take(descriptor)
            next += 1
        }
    }
}

/// Thread 0 of the bare server: reads requests, fsyncs once for all that wait, sends notices and responses.
final class RequestLoop {
    private final class Client {
        let socket: Socket
        var buffer = ReceiveBuffer()

        init(_ socket: Socket) { self.socket = socket }
    }

    private let listening: Socket
    private let groups: [ListenerGroup]
    private let log: FileHandle
    private let feed: BareFeed?
    private let rows: BareRows
    private let poller: Poller
    private var clients: [Int: Client] = [:]
    /// The clients to answer, and the zones to notify, after the commit.
    private var waiting: [Client] = []
    private var changed: [Int] = []
    private var unwritten: [UInt8] = []
    private var uncommitted: [[UInt8]] = []
    private var answer: [UInt8] = []

    private static let done = Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".utf8)

    init(_ listening: Int32, _ settings: BareServer.Settings, _ groups: [ListenerGroup]) throws {
        self.listening = Socket(descriptor: listening)
        self.groups = groups
        guard FileManager.default.createFile(atPath: settings.logPath, contents: nil),
            let log = FileHandle(forWritingAtPath: settings.logPath)
        else { throw LoadError.missing("The bare server cannot write \(settings.logPath).") }
        self.log = log
        feed = try settings.feedPath.map { try BareFeed(path: $0) }
        rows = try BareRows(path: settings.logPath + ".sqlite")
        poller = try Poller()
        self.listening.stopBlocking()
        try poller.add(listening, key: Int(listening))
    }

    func run() throws {
        while true {
            try poller.wait(milliseconds: -1) { key in
                if key == Int(listening.descriptor) {
                    try acceptAll()
                } else {
                    try read(from: key)
                }
            }
            try finish()
        }
    }

    private func acceptAll() throws {
        while let socket = listening.accept() {
            clients[Int(socket.descriptor)] = Client(socket)
            try poller.add(socket.descriptor, key: Int(socket.descriptor))
        }
    }

    private func read(from key: Int) throws {
        guard let client = clients[key] else { return }
        if case .closed = client.buffer.fill(from: client.socket) {
            poller.remove(client.socket.descriptor)
            clients[key] = nil
            return
        }
        let unread = client.buffer.unread
        guard let headLength = HTTPHead.length(in: unread) else { return }
        let head = UnsafeRawBufferPointer(rebasing: unread[..<headLength])
        let whole = headLength + (HTTPHead.contentLength(of: head) ?? 0)
        guard unread.count >= whole else { return }
        try handle(head, body: UnsafeRawBufferPointer(rebasing: unread[headLength..<whole]), from: client)
        client.buffer.use(whole)
    }

    private func handle(_ head: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer, from client: Client) throws {
        if let zone = HTTPHead.number(after: "/commit/", in: head) {
            unwritten.append(contentsOf: body)
            changed.append(zone)
            waiting.append(client)
        } else if HTTPHead.number(after: "/row/", in: head) != nil {
            try rows.add(Array(body))
            try client.socket.write(Self.done)
        } else if HTTPHead.number(after: "/rows/", in: head) != nil {
            try rows.add(body.split(separator: UInt8(ascii: "\n")).map { Array($0) })
            try client.socket.write(Self.done)
        } else if HTTPHead.number(after: "/shared-row/", in: head) != nil {
            uncommitted.append(Array(body))
            waiting.append(client)
        } else if let zone = HTTPHead.number(after: "/notify/", in: head) {
            changed.append(zone)
            waiting.append(client)
        } else if let after = HTTPHead.number(after: "/feed/", in: head) {
            try answerPage(after: after, limit: HTTPHead.number(after: "/limit/", in: head) ?? 200, to: client)
        }
    }

    private func answerPage(after: Int, limit: Int, to client: Client) throws {
        guard let feed else { return }
        answer.removeAll(keepingCapacity: true)
        try feed.append(after: after, limit: limit, to: &answer)
        try client.socket.write(Array("HTTP/1.1 200 OK\r\nContent-Length: \(answer.count)\r\n\r\n".utf8))
        try client.socket.write(answer)
    }

    private func finish() throws {
        if !unwritten.isEmpty {
            try log.write(contentsOf: unwritten)
            try log.synchronize()
            unwritten.removeAll(keepingCapacity: true)
        }
        if !uncommitted.isEmpty {
            try rows.add(uncommitted)
            uncommitted.removeAll(keepingCapacity: true)
        }
        if !changed.isEmpty {
            for group in groups { group.changed(changed) }
            changed.removeAll(keepingCapacity: true)
        }
        for client in waiting { try client.socket.write(Self.done) }
        waiting.removeAll(keepingCapacity: true)
    }
}

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
