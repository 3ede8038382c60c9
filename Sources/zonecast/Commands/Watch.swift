import ArgumentParser
import Records
import Wire

/// `zonecast watch`: prints a user's notices as they arrive.
struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print notices as they arrive.",
        discussion: """
            Connects as an additional device of the user until it is stopped. A user without any subscription gets \
            one to the private database while this runs, since the relay sends notices for subscriptions only. Connection \
            problems are reported and retried; the command ends only if the relay refuses the tokens or the subscription.
            """
    )

    @OptionGroup var relay: RelayOptions
    @Option(help: "Only changes of this zone.")
    var zone: String?
    @Flag(help: "Print one line of JSON per notice: CloudKit's payload and the zone's token.")
    var json = false

    func run() async throws {
        let watch = try await NoticeWatch(relay)
        try await watch.run { event in
            switch event {
            case .live(let ready): Terminal.complain("watching as \(ready.userRecordName) (\(ready.relay))")
            case .notice(let notice): if zone == nil || notice.zone?.zoneName == zone { show(notice) }
            }
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
