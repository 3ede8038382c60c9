import HTTPTypes
import Records
import RelayCore

/// Endpoints that are not operations on a database.
extension Relay {
    /// Serves the OpenAPI document, which is public and readable from any origin.
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

    /// Handles a request to an asset's upload or download address, which needs no credentials and allows any origin.
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
            default: throw RelayError.methodNotAllowed("This address does not support this method.")
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

    /// Handles a long poll.
    func poll(_ request: APIRequest, _ home: ContainerEnvironment, id: RequestIdentifier) async -> APIResponse {
        var response: APIResponse
        do {
            guard request.method == .get else {
                throw RelayError.methodNotAllowed("This path requires GET.")
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
