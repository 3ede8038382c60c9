import Foundation
import TestSupport
import Testing

/// A peer may disconnect at any byte of its request or of the response.
///
/// See Reliability.md, "Faults".
@Suite(.ownThread, .timeLimit(.minutes(15))) struct CutConnectionTests {
    private let folder = ScratchFolder()

    private struct Found: Decodable {
        struct Record: Decodable { var recordName: String, serverErrorCode: String? }
        var records: [Record]
    }

    private struct Feed: Decodable {
        struct Zone: Decodable { var records: [Found.Record] }
        var zones: [Zone]
    }

    @Test func aDisconnectAtAnyByteWritesNothingPartiallyAndLeaksNothing() throws {
        let relay = try RelayProcess(folder: folder.path)
        try Path.makeZones(["Notes"], on: relay)
        #expect(try isSaved(relay) == false)
        let before = relay.openDescriptors
        let request = Self.request
        for count in request.indices { _ = try talk(to: relay, sending: request[..<count], reading: 0) }
        #expect(try isSaved(relay) == false)
        let answer = try talk(to: relay, sending: request[...], reading: .max)
        #expect(answer.starts(with: Array("HTTP/1.1 200 ".utf8)))
        for count in answer.indices { _ = try talk(to: relay, sending: request[...], reading: count) }
        #expect(try isSaved(relay))
        #expect(try feed(relay) == ["a"])
        // The store keeps its readers open, with some files each; sockets must be closed.
        let deadline = ContinuousClock.now + .seconds(120)
        while relay.openDescriptors > before + 60, ContinuousClock.now < deadline { usleep(5_000) }
        #expect(relay.openDescriptors <= before + 60, "\(request.count + answer.count) peers disconnected")
        #expect(relay.stop().status == 0)
    }

    private static var request: [UInt8] {
        let body = """
            {"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"forceReplace","record":{"recordName":"a",\
            "recordType":"Note","fields":{"title":{"value":"x"}}}}]}
            """
        let head = """
            POST \(Path.to("records/modify")) HTTP/1.1\r
            Host: 127.0.0.1\r
            Connection: close\r
            Content-Length: \(body.utf8.count)\r
            \r

            """
        return Array((head + body).utf8)
    }

    /// Sends `bytes`, reads at most `count` bytes and disconnects: every second time with a reset.
    private func talk(to relay: RelayProcess, sending bytes: ArraySlice<UInt8>, reading count: Int) throws -> [UInt8] {
        let descriptor = try HTTPConnection.connect(port: relay.port)
        defer { close(descriptor) }
        if (bytes.count + min(count, 1)) % 2 == 1 {
            var abrupt = linger(l_onoff: 1, l_linger: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &abrupt, socklen_t(MemoryLayout<linger>.size))
        }
        try HTTPConnection.write(Array(bytes), to: descriptor)
        var read: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while read.count < count {
            let length = recv(descriptor, &buffer, min(buffer.count, count - read.count), 0)
            guard length > 0 else { break }
            read += buffer[..<length]
        }
        return read
    }

    private func isSaved(_ relay: RelayProcess) throws -> Bool {
        let body = #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"a"}]}"#
        let found: Found = try relay.connect().send("POST", Path.to("records/lookup"), body: body).json()
        return try #require(found.records.first).serverErrorCode == nil
    }

    private func feed(_ relay: RelayProcess) throws -> [String] {
        let body = #"{"zones":[{"zoneID":{"zoneName":"Notes"}}]}"#
        let feed: Feed = try relay.connect().send("POST", Path.to("changes/zone"), body: body).json()
        return feed.zones.flatMap { $0.records.map(\.recordName) }
    }
}
