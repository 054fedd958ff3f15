//! What is sent along with a request, as often as it is made.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::failure::Failure;
use super::{Watch, told};
use crate::olm::oci::content::Blob;

/// So much at once, in bytes.
const PIECE: usize = 128 << 10;

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    Nothing,
    Document { media_type: &'a str, bytes: &'a Bytes },
    Blob(&'a Blob),
}

/// A body that is there.
pub(super) fn body_of(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

impl Payload<'_> {
    pub(super) fn request(
        self,
        method: &Method,
        uri: &Uri,
        headers: HeaderMap,
        watch: &Arc<dyn Watch>,
    ) -> Result<Request<Body>, Failure> {
        let (body, media_type, length) = match self {
            Self::Nothing => (body_of(Bytes::new()), None, 0),
            Self::Document { media_type, bytes } => {
                (body_of(bytes.clone()), Some(media_type), bytes.len() as u64)
            }
            Self::Blob(blob) => (
                body_of_blob(blob, Arc::clone(watch)),
                Some("application/octet-stream"),
                blob.len(),
            ),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .body(body)
            .map_err(|_| Failure::never(&told(method, uri), "it cannot be asked"))?;
        *request.headers_mut() = headers;
        if let Some(Ok(media_type)) = media_type.map(HeaderValue::from_str) {
            request.headers_mut().insert(header::CONTENT_TYPE, media_type);
        }
        // A registry may refuse a body of which it does not know how long it is, even where there is none
        if !matches!(*method, Method::GET | Method::HEAD) {
            request
                .headers_mut()
                .insert(header::CONTENT_LENGTH, length.into());
        }
        Ok(request)
    }
}

fn body_of_blob(blob: &Blob, watch: Arc<dyn Watch>) -> Body {
    let pieces = stream::try_unfold(Source::Closed(blob.clone()), move |source| {
        let watch = Arc::clone(&watch);
        async move {
            let Some((piece, source)) = source.next().await? else {
                return Ok(None);
            };
            watch.moves(piece.len() as u64);
            Ok(Some((Frame::data(piece), source)))
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// What is left to be sent of a blob.
enum Source {
    Closed(Blob),
    Memory(Bytes),
    File(File, u64),
}

impl Source {
    async fn next(self) -> io::Result<Option<(Bytes, Self)>> {
        match self {
            Self::Closed(Blob::Memory(bytes)) | Self::Memory(bytes) if bytes.is_empty() => Ok(None),
            Self::Closed(Blob::Memory(mut bytes)) | Self::Memory(mut bytes) => {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                Ok(Some((piece, Self::Memory(bytes))))
            }
            Self::Closed(Blob::File { path, offset, length }) => {
                let mut file = File::open(path).await?;
                file.seek(io::SeekFrom::Start(offset)).await?;
                Self::piece(file, length).await
            }
            Self::File(file, left) => Self::piece(file, left).await,
        }
    }

    async fn piece(mut file: File, left: u64) -> io::Result<Option<(Bytes, Self)>> {
        let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        if wanted == 0 {
            return Ok(None);
        }
        let mut piece = vec![0; wanted];
        file.read_exact(&mut piece).await?;
        Ok(Some((piece.into(), Self::File(file, left - wanted as u64))))
    }
}
