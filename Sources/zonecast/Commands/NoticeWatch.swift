import Foundation
import Records
import Synchronization
import Wire
import ZoneKit

/// One more device of a user for as long as a command runs: hears notices, comes back by itself, and says what keeps them
/// away.
final class NoticeWatch: Sendable {
    enum Event: Sendable {
        /// Notices come from now on; what came before is to be asked for.
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
    private let stop = Stop()
    private let isLive = Mutex(false)

    /// Throws where the options name no user, or nobody is at the address.
    ///
    /// `database` is subscribed to for as long as this runs, where the user has no subscription.
    init(_ options: RelayOptions, database: CKDatabase.Scope = .private) async throws {
        caller = try options.caller()
        relay = try RelayAddress(caller.url)
        home = try options.home()
        self.database = database
        guard let webToken = caller.webToken else {
            throw CommandFailure(
                .usage,
                "Notices are a user's: give --web-token, or sign in once with: zonecast login --url \(caller.url)"
            )
        }
        self.webToken = webToken
        let path = "/push/1/\(home.container)/\(home.environment.rawValue)"
        guard let address = SocketAddress(below: relay.url, path: path) else {
            throw CommandFailure(.usage, "'\(caller.url)' is not an address such as http://127.0.0.1:8080.")
        }
        self.address = address
        // Once connected it comes back by itself; a wrong address is better told at once.
        do throws(ProbeFault) {
            try await Probe.connect(to: relay.place).close()
        } catch {
            throw CommandFailure(.unreachable, "The relay at \(relay.place) \(error).")
        }
    }

    /// Hands over what comes, one after the other, until a signal says stop.
    ///
    /// Throws what has ended it else: what `take` throws, and what the relay does not allow.
    func run(_ take: @escaping @Sendable (Event) async throws -> Void) async throws {
        let client = NoticeClient(
            address: address,
            connector: SystemSockets.connector,
            hello: { [deviceID, caller, webToken] in
                NoticeHello(deviceID: deviceID, apiToken: caller.apiToken, webAuthToken: webToken)
            },
            deliver: { await self.hear($0, take) }
        )
        let failure = await stop.wait {
            await withTaskGroup(of: Void.self) { tasks in
                tasks.addTask { await client.run() }
                tasks.addTask { await self.tellTrouble(client) }
            }
        }
        if let failure { throw failure }
    }

    private func hear(_ event: NoticeClient.Event, _ take: @Sendable (Event) async throws -> Void) async {
        do {
            switch event {
            case .live(let ready):
                isLive.withLock { $0 = true }
                // Before anybody looks at what there is: no change comes between.
                if ready.subscriptions.isEmpty || database == .shared { try await subscribe() }
                try await take(.live(ready))
            case .notice(let notice): try await take(.notice(notice))
            case .lost:
                isLive.withLock { $0 = false }
                if !stop.isOver { Terminal.complain("The connection is lost; connecting again.") }
            case .goodbye(let reason): Terminal.complain("The relay says goodbye: \(reason).")
            case .renewed: break
            case .needsCredentials:
                throw CommandFailure(
                    .notAllowed,
                    "The relay does not take these tokens. Sign in again: zonecast user sign-in EMAIL …"
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
        } catch let error as CKError where Self.passing.contains(error.code) {
            // It is asked for again with the next connection.
            Terminal.complain("No subscription could be made yet: \(error.localizedDescription)")
        } catch {
            throw CommandFailure(
                .failed,
                "No subscription could be made, so nothing will come: \(error.localizedDescription)"
            )
        }
    }

    /// What a relay that goes or comes back does to requests.
    private static let passing: Set<CKError.Code> = [
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

    // MARK: Trouble

    /// Says what keeps the notices away, once for each cause, and asks again at once when nothing does any longer.
    private func tellTrouble(_ client: NoticeClient) async {
        var told: String?
        while (try? await Task.sleep(for: .seconds(told == nil ? 2 : 5))) != nil {
            let trouble = isLive.withLock({ $0 }) ? nil : await relay.noticeTrouble()
            // It may have come up, or the command been ended, while somebody looked.
            guard !stop.isOver, trouble != told else { continue }
            if let trouble {
                guard !isLive.withLock({ $0 }) else { continue }
                Terminal.complain("No notices come: the relay at \(trouble). Trying again and again.")
            } else {
                client.networkReturned()
            }
            told = trouble
        }
    }
}
