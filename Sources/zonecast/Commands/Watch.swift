import ArgumentParser
import Foundation
import Records
import Wire
import ZoneKit

/// `zonecast watch`: prints a user's notices as they arrive.
struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print notices as they arrive.",
        discussion: """
            Connects as one more device of the user and stays until it is stopped. A user without any subscription gets
            one to the private database for as long as this runs; notices are sent only for what is subscribed to.
            """
    )

    @OptionGroup var relay: RelayOptions
    @Option(help: "Only changes of this zone.")
    var zone: String?
    @Flag(help: "One line of JSON for each notice: CloudKit's payload and the zone's token.")
    var json = false

    func run() async throws {
        let caller = try relay.caller()
        guard let base = URL(string: caller.url), let host = base.host else {
            throw CommandFailure(.usage, "--url takes an address such as http://127.0.0.1:8080.")
        }
        guard let webToken = caller.webToken else {
            throw CommandFailure(
                .usage,
                "Notices are a user's: give --web-token, or sign in once with: zonecast login --url \(caller.url)"
            )
        }
        // Once connected it comes back by itself; a wrong address is better told at once.
        if let place = ProbeAddress(caller.url) {
            do throws(ProbeFault) {
                try await Probe.connect(to: place).close()
            } catch {
                throw CommandFailure(.unreachable, "The relay at \(place) \(error).")
            }
        }
        let isSecure = base.scheme == "https"
        let path = base.path == "/" ? "" : base.path
        let deviceID = UUID().uuidString
        let address = SocketAddress(
            host: host,
            port: base.port ?? (isSecure ? 443 : 80),
            path: "\(path)/push/1/\(relay.home.container)/\(relay.home.environment.rawValue)",
            isSecure: isSecure
        )
        let stop = Stop()
        let apiToken = caller.apiToken
        let client = NoticeClient(
            address: address,
            connector: SystemSockets.connector,
            hello: { NoticeHello(deviceID: deviceID, apiToken: apiToken, webAuthToken: webToken) },
            deliver: { await self.take($0, container: self.container(base, caller, deviceID), stop) }
        )
        let failure = await stop.wait { await client.run() }
        if let failure { throw failure }
    }

    private func container(_ base: URL, _ caller: Profile, _ deviceID: String) -> CKContainer {
        CKContainer(
            identifier: relay.home.container.name,
            endpoint: RelayEndpoint(
                url: base,
                environment: relay.home.environment == .production ? .production : .development,
                apiToken: caller.apiToken,
                webAuthToken: caller.webToken,
                deviceID: deviceID
            )
        )
    }

    private func take(_ event: NoticeClient.Event, container: CKContainer, _ stop: Stop) async {
        switch event {
        case .live(let ready):
            Terminal.complain("watching as \(ready.userRecordName) (\(ready.relay))")
            if ready.subscriptions.isEmpty { await subscribe(container, stop) }
        case .notice(let notice):
            if zone == nil || notice.zone?.zoneName == zone { show(notice) }
        case .lost:
            if !stop.isOver { Terminal.complain("The connection is lost; connecting again.") }
        case .goodbye(let reason): Terminal.complain("The relay says goodbye: \(reason).")
        case .renewed: break
        case .needsCredentials:
            stop.end(
                CommandFailure(
                    .notAllowed,
                    "The relay does not take these tokens. Sign in again: zonecast user sign-in EMAIL …"
                )
            )
        }
    }

    private func subscribe(_ container: CKContainer, _ stop: Stop) async {
        do {
            let id = "zonecast-watch"
            _ = try await container.privateCloudDatabase.save(CKDatabaseSubscription(subscriptionID: id))
            stop.atEnd { _ = try? await container.privateCloudDatabase.deleteSubscription(withID: id) }
        } catch {
            Terminal.complain("No subscription could be made, so nothing will come: \(error.localizedDescription)")
        }
    }

    private func show(_ notice: Notice) {
        guard json else {
            let place = notice.zone.map { "zone \($0.zoneName) of \($0.owner)" } ?? "database"
            return Terminal.say("\(notice.scope.pathName)  \(place)  changed  (subscription \(notice.subscriptionID))")
        }
        let frame = ServerFrame.notice(notice).encoded
        guard let payload = try? JSONDocument(parsing: frame).root["notice"]?.rawBytes else { return }
        Terminal.say(String(decoding: payload, as: UTF8.self))
    }
}
