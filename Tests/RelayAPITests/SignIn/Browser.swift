import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing

/// A minimal browser for the relay's pages: it keeps the cookie and submits forms.
///
/// Runs no scripts.
final class Browser {
    let relay: Relay
    var cookie: String?
    var address = "192.0.2.7"
    private(set) var page = ""

    init(_ relay: Relay) { self.relay = relay }

    init(_ world: SignInWorld) throws {
        relay = try world.relay()
    }

    /// Returns the sign-in address in the 421 response to an application's request.
    func link(apiToken: String, in home: ContainerEnvironment, headers: HTTPFields = [:]) async throws -> String {
        let answer = await relay.respond(
            to: APIRequest(
                method: .get,
                path: "/database/1/\(home.container)/\(home.environment.rawValue)/public/users/caller",
                query: "ckAPIToken=\(apiToken)",
                headers: headers
            )
        )
        #expect(answer.status.code == 421)
        let body = String(decoding: answer.body, as: UTF8.self)
        let url = try #require(body.firstMatch(of: /"redirectURL":"([^"]*)"/)?.1)
        return String(url).replacing("\\/", with: "/")
    }

    @discardableResult
    func open(_ url: String) async throws -> APIResponse {
        let parts = try #require(URLComponents(string: url))
        return await send(APIRequest(method: .get, path: parts.path, query: parts.percentEncodedQuery))
    }

    /// Fills in and submits the page's form, or the one whose `action` field has this value.
    @discardableResult
    func submit(
        _ path: String,
        _ typed: [String: String],
        action: String? = nil,
        headers: HTTPFields = [:]
    ) async -> APIResponse {
        var fields = hiddenFields(action: action)
        fields.merge(typed) { $1 }
        let body = fields.map { "\(Self.escaped($0.key))=\(Self.escaped($0.value))" }.joined(separator: "&")
        return await send(APIRequest(method: .post, path: path, headers: headers, body: Array(body.utf8)))
    }

    func hiddenFields(action: String? = nil) -> [String: String] {
        let forms = page.components(separatedBy: "<form ")
        let form = forms.first { form in
            action.map { form.contains("name=\"action\" value=\"\($0)\"") } ?? form.contains("name=\"form\"")
        }
        var fields: [String: String] = [:]
        for match in (form ?? "").matches(of: /<input type="hidden" name="([^"]*)" value="([^"]*)"/) {
            fields[String(match.1)] = String(match.2)
        }
        return fields
    }

    private func send(_ request: APIRequest) async -> APIResponse {
        var request = request
        request.remoteAddress = address
        request.headers.append(HTTPField(name: Self.host, value: "relay.example"))
        if let cookie { request.headers[.cookie] = cookie }
        let response = await relay.respond(to: request)
        if let set = response.headers[.setCookie] { cookie = set.split(separator: ";").first.map(String.init) }
        // After a redirect elsewhere, the test can still go back to the form.
        if response.status.kind != .redirection { page = String(decoding: response.body, as: UTF8.self) }
        return response
    }

    private static func escaped(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }

    private static let host: HTTPField.Name = {
        guard let name = HTTPField.Name("Host") else { preconditionFailure("a field name") }
        return name
    }()
}
