import HTTPTypes
import Records
import RelayCore

/// What has an address of its own, beside the operations on databases.
extension Relay {
    /// Everybody may know what the relay serves, pages of other origins included.
    static func describe(_ request: APIRequest, id: RequestIdentifier) -> APIResponse {
        let isRead = request.method == .get || request.method == .head
        var response = APIResponse(
            status: isRead ? .ok : .methodNotAllowed,
            body: isRead ? OpenAPIDocument.json : []
        )
        response.headers.append(json)
        response.headers[.requestUUID] = id.text
        response.headers[.accessControlAllowOrigin] = "*"
        if !isRead { response.headers[.allow] = "GET, HEAD" }
        return response
    }

    /// Answers at an asset's address, which needs no credentials and may be called by any page that knows it.
    func carry(_ request: APIRequest, _ purpose: AssetSeal.Purpose) async -> APIResponse {
        let id = requestID()
        var response: APIResponse
        do {
            switch (purpose, request.method) {
            case (_, .options):
                response = APIResponse(status: .noContent)
                response.headers[.accessControlAllowMethods] = "GET, POST, PUT, OPTIONS"
                response.headers[.accessControlAllowHeaders] = "Content-Type, If-None-Match, Range, Upload-Offset"
                response.headers[.accessControlMaxAge] = "600"
            case (.upload, .post), (.upload, .put):
                let answer = try await assets.finish(request)
                response = APIResponse(status: .ok, text: answer.body)
                response.headers.append(Self.json)
            case (.upload, .get), (.upload, .head): response = try assets.progress(request)
            case (.download, .get), (.download, .head): response = try await assets.download(request)
            default: throw RelayError.methodNotAllowed("This address is called in another way.")
            }
        } catch {
            response = failure(error, id: id)
            if response.status == .methodNotAllowed {
                response.headers[.allow] = purpose == .upload ? "POST, PUT, OPTIONS" : "GET, HEAD, OPTIONS"
            }
            response.headers.append(Self.json)
        }
        response.headers[.requestUUID] = id.text
        response.headers[.accessControlAllowOrigin] = "*"
        response.headers[.accessControlExposeHeaders] = "ETag, Upload-Offset, X-Apple-Request-UUID"
        return response
    }

    /// Answers a long poll.
    func poll(_ request: APIRequest, _ home: ContainerEnvironment, id: RequestIdentifier) async -> APIResponse {
        var response: APIResponse
        do {
            guard request.method == .get else {
                throw RelayError.methodNotAllowed("This path is called by GET.")
            }
            response = try await couriers.respond(to: request, in: home)
        } catch {
            response = failure(error, id: id)
            if response.status == .methodNotAllowed { response.headers[.allow] = "GET" }
            response.headers.append(Self.json)
            response.headers[.accessControlAllowOrigin] = "*"
        }
        response.headers[.requestUUID] = id.text
        return response
    }
}
