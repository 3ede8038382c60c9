import Foundation
import Sockets

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
