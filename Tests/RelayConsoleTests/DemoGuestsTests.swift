import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayConsole
import RelayCore
import RelaySystem
import StoreTesting
import Testing

/// Guests of a demo enter with a PIN, at a limited rate.
@Suite struct DemoGuestsTests {
    private let accounts: any AccountDirectory
    private let pages: ServedPages

    private struct Visit: Decodable {
        var container: String
        var apiToken: String
        var users: [String: String]
        var pin: String?
    }

    init() throws {
        accounts = try TestStore.current.makeHome().accounts()
        let container = try #require(ContainerID("iCloud.org.zonecast.audience-1"))
        try accounts.addContainer(container)
        let settings = DemoGuests.Settings(
            container: container.name,
            apiToken: "token",
            pin: "123456",
            hostSecret: "secret"
        )
        let guests = DemoGuests(
            settings,
            in: ContainerEnvironment(container, .development),
            directory: accounts,
            time: TimeSource(now: TimeSource.system.now) { .zero },
            random: .system
        )
        pages = try ServedPages(DemoPages(isOpen: true, run: "1", guests: guests).entries)
    }

    private func join(
        _ body: String,
        from address: String = "192.168.1.2",
        isOwnPage: Bool = true
    ) async throws -> APIResponse {
        var headers = HTTPFields()
        let name = try #require(HTTPField.Name("X-Zonecast-Demo"))
        if isOwnPage { headers[name] = "join" }
        let request = APIRequest(
            method: .post,
            path: "/demo/join",
            headers: headers,
            body: Array(body.utf8),
            remoteAddress: address
        )
        return try #require(await pages.answer(request))
    }

    private func visit(_ answer: APIResponse) throws -> Visit {
        #expect(answer.status == .ok)
        return try JSONDecoder().decode(Visit.self, from: Data(answer.body))
    }

    @Test func eachGuestReceivesAUserWithoutTheHostsSecrets() async throws {
        var guests: [Visit] = []
        for _ in 1...2 { guests.append(try visit(await join(#"{"pin":"123456"}"#))) }
        #expect(guests.map(\.users.keys.first) == ["guest1", "guest2"])
        #expect(guests.allSatisfy { $0.apiToken == "token" && $0.pin == nil })
        let host = try visit(await join(#"{"host":"secret"}"#))
        #expect(host.users.keys.sorted() == ["alice", "bob"] && host.pin == "123456")
        // Another window of the host has the same users.
        #expect(try await visit(join(#"{"host":"secret"}"#)).users == host.users)
    }

    @Test(arguments: [#"{"pin":"123457"}"#, #"{"pin":""}"#, #"{"host":"other"}"#, "{}"])
    func aWrongPINIsRefused(_ body: String) async throws {
        #expect(try await join(body).status == .forbidden)
    }

    @Test func pagesOfOtherSitesCannotEnter() async throws {
        #expect(try await join(#"{"pin":"123456"}"#, isOwnPage: false).status == .forbidden)
        #expect(try await join("nonsense").status == .badRequest)
        let other = try ServedPages(DemoPages(isOpen: true, run: "1").entries)
        #expect(await other.answer(APIRequest(method: .post, path: "/demo/join"))?.status != .ok)
    }

    @Test func attemptsAreLimitedByAddressAndAltogether() async throws {
        for _ in 0..<10 { #expect(try await join(#"{"pin":"000000"}"#).status == .forbidden) }
        #expect(try await join(#"{"pin":"123456"}"#).status == .tooManyRequests)
        // Other guests still enter, until the limit for all is reached.
        for number in 10..<60 {
            #expect(try await join(#"{"pin":"123456"}"#, from: "192.168.2.\(number)").status == .ok)
        }
        #expect(try await join(#"{"pin":"123456"}"#, from: "192.168.3.1").status == .tooManyRequests)
        // The host is not a guest.
        #expect(try await join(#"{"host":"secret"}"#).status == .ok)
    }

    @Test func onlyTheHostSetsTheInvitation() async throws {
        func means() async throws -> String {
            let answer = try #require(await pages.answer(APIRequest(method: .get, path: "/demo/means.json")))
            return String(decoding: answer.body, as: UTF8.self)
        }
        #expect(try await join(#"{"pin":"123456","invitation":"theirs"}"#).status == .ok)
        #expect(try await !means().contains("invitation"))
        #expect(try await join(#"{"host":"secret","invitation":"a\"b"}"#).status == .ok)
        #expect(try await !means().contains("invitation"))
        #expect(try await join(#"{"host":"secret","invitation":"0AbC"}"#).status == .ok)
        #expect(try await means().contains(#""invitation":"0AbC""#))
    }
}
