import Foundation
import Records
import Synchronization
import Wire
import ZoneKit

/// Receives a user's notices as an additional device while a command runs.
///
/// Reconnects automatically and reports why notices do not arrive.
final class NoticeWatch: Sendable {
    enum Event: Sendable {
        /// The connection is open; changes from before must be fetched.
        case live(NoticeReady)
        case notice(Notice)
    }

    private let relay: RelayAddress
    private let address: SocketAddress
    private let home: ContainerEnvironment
    private let caller: Profile
    private let webToken: String
    private let database: CKDatabase.Scope
    private let deviceID = UUID().uuidString
    private let stop = InterruptibleTask()
    private let isLive = Mutex(false)

    /// Checks the options and that the relay is reachable.
    ///
    /// - Parameters:
    ///   - options: The relay, container and user.
    ///   - database: Subscribed to while this runs, if the user has no subscription.
    /// - Throws: `CommandFailure` if the options name no user or nothing listens at the address.
    init(_ options: RelayOptions, database: CKDatabase.Scope = .private) async throws {
        home = try options.home()
        caller = try await options.caller(home)
        relay = try RelayAddress(caller.url)
        self.database = database
        guard let webToken = caller.webToken else {
            throw CommandFailure(
                .usage,
                "Notices need a user. Add --web-token, or sign in once: zonecast login --url \(caller.url)"
            )
        }
        self.webToken = webToken
        let path = "/push/1/\(home.container)/\(home.environment.rawValue)"
        guard let address = SocketAddress(below: relay.url, path: path) else {
            throw CommandFailure(.usage, "'\(caller.url)' is not an address such as http://127.0.0.1:8080.")
        }
        self.address = address
        // A connected client reconnects automatically, but a wrong address must be reported at once.
        do throws(ProbeFault) {
            try await Probe.connect(to: relay.place).close()
        } catch {
            throw CommandFailure(.unreachable, "The relay at \(relay.place) \(error).")
        }
    }

    /// Passes events to `take` one at a time until a stop signal arrives.
    ///
    /// - Throws: The error that `take` throws, or the relay's refusal.
    func run(_ take: @escaping @Sendable (Event) async throws -> Void) async throws {
        let client = NoticeClient(
            address: address,
            connector: SystemSockets.connector,
            hello: { [deviceID, caller, webToken] in
                NoticeHello(deviceID: deviceID, apiToken: caller.apiToken, webAuthToken: webToken)
            },
            deliver: { await self.received($0, take) }
        )
        let failure = await stop.wait {
            await withTaskGroup(of: Void.self) { tasks in
                tasks.addTask { await client.run() }
                tasks.addTask { await self.reportProblems(client) }
            }
        }
        if let failure { throw failure }
    }

    private func received(_ event: NoticeClient.Event, _ take: @Sendable (Event) async throws -> Void) async {
        do {
            switch event {
            case .live(let ready):
                isLive.withLock { $0 = true }
                // Subscribe before the caller fetches, so that no change is missed in between.
                if ready.subscriptions.isEmpty || database == .shared { try await subscribe() }
                try await take(.live(ready))
            case .notice(let notice): try await take(.notice(notice))
            case .lost:
                isLive.withLock { $0 = false }
                if !stop.isOver { Terminal.sayError("The connection is lost. Reconnecting.") }
            case .goodbye(let reason): Terminal.sayError("The relay closed the connection: \(reason).")
            case .renewed: break
            case .needsCredentials:
                throw CommandFailure(
                    .notAllowed,
                    "The relay does not accept these tokens. Sign in again: zonecast user sign-in EMAIL …"
                )
            }
        } catch {
            stop.end(error as? CommandFailure ?? CommandFailure(.failed, error.localizedDescription))
        }
    }

    // MARK: The subscription

    private func subscribe() async throws {
        let id = "zonecast-watch"
        let container = container
        let place = database == .shared ? container.sharedCloudDatabase : container.privateCloudDatabase
        do {
            _ = try await place.save(CKDatabaseSubscription(subscriptionID: id))
            stop.atEnd { _ = try? await place.deleteSubscription(withID: id) }
        } catch let error as CKError where Self.transientErrors.contains(error.code) {
            // Retried with the next connection.
            Terminal.sayError("The subscription could not be created yet: \(error.localizedDescription)")
        } catch {
            throw CommandFailure(
                .failed,
                "The subscription could not be created, so no notices would arrive: \(error.localizedDescription)"
            )
        }
    }

    /// Errors of a relay that stops or restarts.
    private static let transientErrors: Set<CKError.Code> = [
        .networkFailure, .networkUnavailable, .serverResponseLost, .serviceUnavailable,
    ]

    private var container: CKContainer {
        CKContainer(
            identifier: home.container.name,
            endpoint: RelayEndpoint(
                url: relay.url,
                environment: home.environment == .production ? .production : .development,
                apiToken: caller.apiToken,
                webAuthToken: caller.webToken,
                deviceID: deviceID
            )
        )
    }

    // MARK: Connection problems

    /// Reports each cause that prevents notices once, and reconnects at once when it is gone.
    private func reportProblems(_ client: NoticeClient) async {
        var told: String?
        while (try? await Task.sleep(for: .seconds(told == nil ? 2 : 5))) != nil {
            let problem = isLive.withLock({ $0 }) ? nil : await relay.noticeProblem()
            // The connection may have opened, or the command may have ended, meanwhile.
            guard !stop.isOver, problem != told else { continue }
            if let problem {
                guard !isLive.withLock({ $0 }) else { continue }
                Terminal.sayError("No notices arrive: the relay at \(problem). Retrying.")
            } else {
                client.networkReturned()
            }
            told = problem
        }
    }
}
