# Written by `roadstead catalog generate`.
ARG OPM_IMAGE=quay.io/operator-framework/opm:v1.65.0
FROM ${OPM_IMAGE}

LABEL operators.operatorframework.io.index.configs.v1=/configs

COPY catalog /configs

ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs"]
