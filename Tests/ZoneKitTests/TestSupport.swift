import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Fails unless `body` throws a `CKError` with this code.
func expect(
    _ code: CKError.Code,
    at location: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Void
) async {
    do {
        try await body()
        Issue.record("nothing was thrown, \(code) was expected", sourceLocation: location)
    } catch {
        #expect((error as? CKError)?.code == code, "\(error)", sourceLocation: location)
    }
}

/// Fails unless `body` throws a `CKError` with this code.
func expect(
    _ code: CKError.Code,
    at location: SourceLocation = #_sourceLocation,
    _ body: () throws -> Void
) {
    do {
        try body()
        Issue.record("nothing was thrown, \(code) was expected", sourceLocation: location)
    } catch {
        #expect((error as? CKError)?.code == code, "\(error)", sourceLocation: location)
    }
}

/// The time limit of a wait was reached.
struct WaitTimeout: Error, CustomStringConvertible {
    var what: String
    var description: String { "timed out waiting for \(what)" }
}

/// Returns the result of `body`, or throws an error that names the awaited event after `limit`.
func within<Result: Sendable>(
    _ limit: Duration,
    _ what: String,
    _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    try await withThrowingTaskGroup(of: Result.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: limit)
            throw WaitTimeout(what: what)
        }
        defer { group.cancelAll() }
        guard let first = try await group.next() else { throw WaitTimeout(what: what) }
        return first
    }
}

/// A stream whose elements a test takes one at a time, each with a time limit.
final class TimedStream<Element: Sendable>: Sendable {
    private let stream: AsyncStream<Element>

    init(_ stream: AsyncStream<Element>) { self.stream = stream }

    /// The next element for which `pick` returns a value.
    ///
    /// Other elements are skipped.
    func next<Found: Sendable>(
        _ what: String,
        within limit: Duration = .seconds(120),
        _ pick: @escaping @Sendable (Element) -> Found?
    ) async throws -> Found {
        try await ZoneKitTests.within(limit, what) { [stream] in
            for await element in stream {
                if let found = pick(element) { return found }
            }
            throw WaitTimeout(what: what)
        }
    }
}

/// Wakes waiting tasks after a possible change, so that they check their condition again.
final class ChangeSignal: Sendable {
    private let listeners = Mutex<[Int: AsyncStream<Void>.Continuation]>([:])
    private let count = Atomic(0)

    func send() { listeners.withLock { Array($0.values) }.forEach { $0.yield() } }

    /// Returns when the condition holds.
    ///
    /// The condition is checked at once and after each signal. Throws if the task is cancelled.
    func until(_ condition: @Sendable () -> Bool) async throws {
        let number = count.add(1, ordering: .relaxed).newValue
        // Several pending signals count as one.
        let (signals, listener) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        listeners.withLock { $0[number] = listener }
        defer { listeners.withLock { $0[number] = nil } }
        if condition() { return }
        for await _ in signals where condition() { return }
        throw CancellationError()
    }
}

extension TestDevice {
    /// Configures the device's container to use the test's relay through this device's network, as a program does.
    func configure(as user: String, encryptionKey: (any EncryptionKeyProvider)? = nil) throws -> CKContainer {
        guard let nowhere = URL(string: "http://127.0.0.1:9") else { throw CKError(.internalError) }
        var endpoint = RelayEndpoint.dev(nowhere, user: user, deviceID: connection.deviceID)
        endpoint.network = (network, connection.sockets)
        endpoint.encryptionKey = encryptionKey
        CKContainer.configure(endpoint, for: connection.container)
        return CKContainer(identifier: connection.container)
    }
}

extension TestRelay {
    /// Returns a device whose container no other test configures.
    func configurableDevice(of user: String) -> TestDevice {
        device(of: user, named: "phone", container: "iCloud.org.example.c\(UUID().uuidString.lowercased().prefix(8))")
    }
}
